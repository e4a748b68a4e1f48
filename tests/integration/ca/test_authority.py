"""What fleetd certifies, every verifier can check; what it takes back is on the list at once."""

import os
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID
from sqlalchemy import delete, select

from fleetd.ca import issuing
from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.revoking import FleetAuthority, sign_root_list
from fleetd.ca.signer import FileSigner, KeyFileError, write_key
from fleetd.ca.tree import TreeError, keep_server_certificate, make_tree
from fleetd.core.certificates.profile import Kind, Tier
from fleetd.host import SystemRandom
from fleetd.ports import OutageError, RefusedError
from fleetd.secret_files import SecretFileError
from fleetd.store import audit
from fleetd.store.certificates import CertificateRow, RevocationListRow, retire_issuer
from fleetd.store.clock import accept_clock, watch_clock
from tests.integration.ca.conftest import an_order, not_withdrawn, public_area


def load(pem):
    return x509.load_pem_x509_certificate(pem.encode())


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def issued(issuer):
    return issuer.issue(an_order())


def test_openssl_verifies_both_certificates_up_to_the_root(issued, tree, tmp_path, clock):
    root, issuers = tree.directory / "root.pem", tmp_path / "issuers.pem"
    issuers.write_text("".join(issued.certificates.chain[:2]))
    for name, pem in (("ldevid", issued.certificates.ldevid), ("lak", issued.certificates.lak)):
        file = tmp_path / f"{name}.pem"
        file.write_text(pem)
        # A restricted key's certificate has a critical SAN of TPM attributes, which openssl handles.
        done = openssl(
            "verify",
            "-attime",
            str(int(clock.now().timestamp())),
            "-CAfile",
            str(root),
            "-untrusted",
            str(issuers),
            str(file),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert openssl("x509", "-in", str(file), "-noout", "-text").returncode == 0


def test_an_ldevid_names_the_node_and_the_device_and_its_tpm(issued):
    made = load(issued.certificates.ldevid)

    assert made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "node-7"
    assert made.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)[0].value == "SN7"
    san = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not san.critical
    kinds = {name.type_id.dotted_string: name.value for name in san.value}
    assert set(kinds) == {"1.3.6.1.5.5.7.8.4", "1.3.6.1.5.5.7.8.3"}
    assert b"IBM:" in kinds["1.3.6.1.5.5.7.8.4"]
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]


def test_a_lak_certificate_has_no_subject_and_a_critical_name_of_its_tpm(issued):
    made = load(issued.certificates.lak)

    assert not list(made.subject)
    san = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert san.critical
    text = san.value.get_values_for_type(x509.DirectoryName)[0].rfc4514_string()
    assert "2.23.133.2.1=IBM" in text
    assert made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value[0].dotted_string == "2.23.133.8.3"


def test_a_device_certificate_says_where_its_list_is_and_who_signed_it(issued, tree):
    for pem, tier in ((issued.certificates.ldevid, Tier.DEVID), (issued.certificates.lak, Tier.AK)):
        made = load(pem)
        point = made.extensions.get_extension_for_oid(ExtensionOID.CRL_DISTRIBUTION_POINTS).value[0]
        assert point.full_name[0].value == f"https://fleetd.example.org:7443/v1/crl/{tier}"
        made.verify_directly_issued_by(tree.certificate(tier))
        policies = {
            policy.policy_identifier.dotted_string
            for policy in made.extensions.get_extension_for_class(x509.CertificatePolicies).value
        }
        assert "2.23.133.11.1.1" in policies
        assert made.serial_number.bit_length() == 128


def test_no_critical_extension_but_the_alternative_name_stands_in_the_way_of_spire(issued):
    for pem in (issued.certificates.ldevid, issued.certificates.lak):
        critical = [extension.oid for extension in load(pem).extensions if extension.critical]
        assert set(critical) <= {ExtensionOID.SUBJECT_ALTERNATIVE_NAME}


def test_the_same_enrollment_and_keys_get_the_same_certificates(issuer):
    order = an_order()

    assert issuer.issue(order) == issuer.issue(order)


def test_a_certificate_never_outlives_its_issuer(issuer, clock, tree):
    clock.pass_by(days=5 * 365 - 30)

    made = load(issuer.issue(an_order()).certificates.ldevid)

    assert made.not_valid_after_utc == tree.certificate(Tier.DEVID).not_valid_after_utc


def test_an_expired_authority_issues_nothing(issuer, clock):
    clock.pass_by(days=5 * 365 + 1)

    with pytest.raises(RefusedError, match="the issuing CA is in force"):
        issuer.issue(an_order())


STEPS = ["_take_serials", "_intend", "device_builder", "compare_result", "_persist"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_step_of_issuing_leaves_no_certificate_twice_and_no_serial_reused(
    issuer, sessions, clock, monkeypatch, step, when
):
    order = an_order()
    place = issuing.FleetIssuer if hasattr(issuing.FleetIssuer, step) else issuing
    real = getattr(place, step)

    def crash(*arguments, **options):
        if when == "after":
            real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(place, step, crash)
    with pytest.raises(KeyboardInterrupt):
        issuer.issue(order)
    monkeypatch.setattr(place, step, real)

    made = issuer.issue(order)
    clock.pass_by(minutes=10)
    issuer.sweep_intents()

    with sessions() as session:
        rows = session.scalars(select(CertificateRow)).all()
    current = {row.serial for row in rows if row.state == "issued"}
    assert current == {made.ldevid_serial, made.lak_serial}
    assert all(row.revoked_at for row in rows if row.state == "unissued")
    assert not [row for row in rows if row.state == "intended"]


def test_a_revoked_machine_is_on_both_lists_and_openssl_refuses_it(issued, authority, tree, tmp_path, clock):
    authority.revoke(7, "cessationOfOperation")

    for tier, pem, serial in (
        (Tier.DEVID, issued.certificates.ldevid, issued.ldevid_serial),
        (Tier.AK, issued.certificates.lak, issued.lak_serial),
    ):
        listed = x509.load_der_x509_crl(authority.revocation_list(tier))
        assert listed.is_signature_valid(tree.certificate(tier).public_key())
        assert listed.get_revoked_certificate_by_serial_number(int(serial, 16)) is not None
        crl, certificate, chain = tmp_path / "crl.pem", tmp_path / "c.pem", tmp_path / "i.pem"
        from cryptography.hazmat.primitives.serialization import Encoding

        crl.write_bytes(listed.public_bytes(Encoding.PEM))
        certificate.write_text(pem)
        chain.write_bytes(
            tree.certificate(tier).public_bytes(Encoding.PEM) + tree.certificate(Tier.ROOT).public_bytes(Encoding.PEM)
        )
        done = openssl(
            "verify",
            "-attime",
            str(int(clock.now().timestamp())),
            "-crl_check",
            "-CRLfile",
            str(crl),
            "-CAfile",
            str(chain),
            str(certificate),
        )
        assert "revoked" in done.stdout + done.stderr


def test_a_hold_is_lifted_and_a_revocation_is_not(issuer, issued, authority):
    authority.hold(7)
    assert issuer.current(7) is None
    authority.release(7)
    assert issuer.current(7) == issued

    authority.revoke(7, "keyCompromise")
    authority.release(7)

    assert issuer.current(7) is None


def test_a_hold_becomes_a_revocation_when_the_machine_is_wiped(issuer, issued, authority):
    authority.hold(7)
    authority.revoke(7, "cessationOfOperation")
    authority.release(7)

    assert issuer.current(7) is None


def test_a_list_is_signed_anew_at_half_of_its_life_and_its_number_grows(authority, clock):
    first = x509.load_der_x509_crl(authority.revocation_list(Tier.DEVID))
    clock.pass_by(days=3)
    assert x509.load_der_x509_crl(authority.revocation_list(Tier.DEVID)) == first
    clock.pass_by(days=1)

    second = x509.load_der_x509_crl(authority.revocation_list(Tier.DEVID))

    assert number_of(second) > number_of(first)
    assert second.next_update_utc > first.next_update_utc


def test_the_number_of_a_list_grows_within_a_second_and_over_a_restored_store(authority, clock, sessions):
    tier, seen = Tier.DEVID, []
    for _ in range(3):
        authority.revoke(7, "keyCompromise")
        seen.append(number_of(x509.load_der_x509_crl(authority.revocation_list(tier))))
        with sessions.begin() as session:
            session.execute(delete(RevocationListRow).where(RevocationListRow.number == seen[-1]))
        clock.pass_by(seconds=1)
    first = authority._sign_list(authority.tree.issuer(tier))
    again = authority._sign_list(authority.tree.issuer(tier))

    seen += [number_of(x509.load_der_x509_crl(listed)) for listed in (first, again)]
    assert seen == sorted(set(seen))


def test_a_list_counts_for_who_is_a_few_seconds_behind(authority, clock):
    listed = x509.load_der_x509_crl(authority.revocation_list(Tier.DEVID))

    assert listed.last_update_utc <= clock.now() - timedelta(seconds=30)


def number_of(listed):
    return listed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def test_a_list_that_nobody_signs_anew_is_told_before_it_ends(authority, clock, tree):
    (tree.directory / "root.crl").write_bytes(sign_root_list(tree, clock.now()))
    authority.keep_fresh()
    assert authority.late() == ()
    clock.pass_by(days=6)

    assert authority.late() == (
        "the revocation list of devid ends 2026-03-08 12:00",
        "the revocation list of ak ends 2026-03-08 12:00",
    )

    clock.pass_by(days=335)
    authority.keep_fresh()
    (root,) = authority.late()
    assert "bring root.key back" in root


def test_a_list_is_still_given_while_its_key_cannot_be_used(authority, clock, tree):
    before = authority.revocation_list("ak")
    (tree.directory / "ak.key").chmod(0o644)
    clock.pass_by(days=5)

    assert authority.revocation_list("ak") == before
    with pytest.raises(SecretFileError):
        authority.keep_fresh()


def test_an_authority_whose_key_cannot_be_used_takes_no_serial(issuer, tree, sessions):
    (tree.directory / "devid.key").chmod(0o640)

    with pytest.raises(OutageError, match=r"the devid authority cannot issue: .*mode 0640"):
        issuer.issue(an_order())

    with sessions() as session:
        assert not session.scalars(select(CertificateRow)).all()


def test_renewal_is_due_after_two_thirds_and_the_old_one_is_superseded_only_when_the_new_one_is_used(issuer, clock):
    first = issuer.issue(an_order())
    assert not issuer.renewal_due(7)
    clock.pass_by(days=250)
    assert issuer.renewal_due(7)

    second = issuer.issue(an_order())

    assert not_withdrawn(issuer, 7, first.ldevid_serial, first.lak_serial)
    issuer.installed(7, (second.ldevid_serial, second.lak_serial))
    assert issuer.current(7) == second
    assert not_withdrawn(issuer, 7, first.ldevid_serial, first.lak_serial), "a lost answer locks nobody out"


def test_another_machines_certificate_is_not_acceptable(issuer, issued):
    assert not not_withdrawn(issuer, 8, issued.ldevid_serial)
    assert not not_withdrawn(issuer, 7, "ff")


def test_a_paused_authority_says_who_paused_it_and_issues_nothing(issuer):
    issuer.pause("anna", "key ceremony")
    with pytest.raises(OutageError, match="anna: key ceremony"):
        issuer.issue(an_order())
    issuer.resume()

    assert issuer.issue(an_order())


def test_a_key_file_that_others_can_read_is_refused(tree):
    (tree.directory / "devid.key").chmod(0o644)

    with pytest.raises(SecretFileError, match="mode 0644"):
        tree.issuer(Tier.DEVID).signer.private_key()


def test_a_half_written_key_is_refused_in_words(tree):
    file = tree.directory / "ak.key"
    file.write_text(file.read_text()[:60])

    with pytest.raises(KeyFileError, match="not a PEM private key"):
        tree.issuer(Tier.AK).signer.private_key()


def test_init_twice_changes_nothing_and_a_lost_issuer_needs_the_root_back(tree, clock):
    before = {file.name: file.read_bytes() for file in tree.directory.iterdir()}
    make_tree(tree.directory, "Other", "", clock.now(), SystemRandom())
    assert {file.name: file.read_bytes() for file in tree.directory.iterdir()} == before

    (tree.directory / "root.key").unlink()
    make_tree(tree.directory, "Other", "", clock.now(), SystemRandom())
    (tree.directory / "ak.pem").unlink()

    with pytest.raises(TreeError, match=r"bring root\.key back"):
        make_tree(tree.directory, "Other", "", clock.now(), SystemRandom())


def test_the_servers_certificate_is_renewed_in_time_and_for_new_names(tree, clock):
    assert keep_server_certificate(tree, ["10.0.2.2", "127.0.0.1"], clock.now(), SystemRandom())
    assert not keep_server_certificate(tree, ["10.0.2.2", "127.0.0.1"], clock.now(), SystemRandom())
    assert keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())
    clock.pass_by(days=61)

    assert keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())
    done = openssl("verify", "-attime", str(int(clock.now().timestamp())), "-CAfile", str(tree.directory / "root.pem"),
                   "-untrusted", str(Path(tree.directory) / "server.pem"), str(tree.server_files[0]))  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("by", [{"days": 100}, {"minutes": 2}, {"seconds": -90}])
def test_nothing_is_issued_after_the_clock_was_set_until_it_has_settled(issuer, clock, sessions, by):
    issuer.issue(an_order())

    clock.step(**by)
    with pytest.raises(OutageError, match=r"this host's clock was set at .* it is trusted in 300 s"):
        issuer.issue(an_order(8))
    clock.pass_by(minutes=4)
    clock.step(minutes=5)
    with pytest.raises(OutageError, match="it is trusted in 300 s"):
        issuer.issue(an_order(8))
    with sessions() as session:
        assert {row.machine_id for row in session.scalars(select(CertificateRow))} == {7}

    clock.pass_by(minutes=5)
    issuer.issue(an_order(8))


def test_a_person_who_looked_at_the_clock_ends_the_wait(issuer, clock, sessions):
    issuer.issue(an_order())
    clock.step(hours=3)
    with pytest.raises(OutageError):
        issuer.issue(an_order(8))

    with sessions.begin() as session:
        accept_clock(session, clock, "olga", "the battery was empty")

    issuer.issue(an_order(8))


def test_a_clock_behind_what_was_written_issues_nothing(issuer, clock, sessions):
    with sessions.begin() as session:
        audit.record(session, clock.now() + timedelta(days=3), "something")

    with pytest.raises(OutageError, match="behind what was written at"):
        issuer.issue(an_order())


def test_a_clock_that_goes_on_or_is_corrected_a_little_is_believed(issuer, clock):
    issuer.issue(an_order())
    clock.pass_by(days=20)
    clock.step(seconds=40)

    issuer.issue(an_order(8))


def test_certificates_and_lists_of_a_time_when_the_clock_was_ahead_are_made_anew(issuer, authority, clock):
    clock.pass_by(days=100)
    issuer.issue(an_order())
    ahead = x509.load_der_x509_crl(authority.revocation_list("devid"))
    clock.pass_by(days=-100)

    assert issuer.renewal_due(7)
    issuer.issue(an_order())
    assert not issuer.renewal_due(7)
    again = x509.load_der_x509_crl(authority.revocation_list("devid"))
    assert again.last_update_utc <= clock.now() < ahead.last_update_utc


def test_the_rate_limit_is_of_each_authority_and_over_after_a_minute(sessions, tree, clock):
    issuer = issuing.FleetIssuer(sessions, tree, clock, SystemRandom(), "https://x", per_minute=2)
    issuer.issue(an_order(1))
    issuer.issue(an_order(2))

    with pytest.raises(OutageError, match="more than 2 certificates of devid in a minute"):
        issuer.issue(an_order(3))
    clock.pass_by(seconds=61)

    assert issuer.issue(an_order(3))


def test_a_reissue_lets_a_machine_renew_at_its_next_check_and_the_old_one_stays_until_then(issuer, clock):
    first = issuer.issue(an_order(7))
    issuer.issue(an_order(8))

    assert issuer.reissue(7) == 2

    assert issuer.renewal_due(7)
    assert not issuer.renewal_due(8)
    assert issuer.current(7) == first
    clock.pass_by(minutes=1)
    second = issuer.issue(an_order(7))
    assert not issuer.renewal_due(7)
    issuer.installed(7, (second.ldevid_serial, second.lak_serial))
    assert not_withdrawn(issuer, 7, first.ldevid_serial)
    assert issuer.reissue() == 4


def test_the_last_issued_counts_as_newest_even_where_the_clock_was_set_back_since(issuer, clock, sessions):
    """Two minutes: certificates of a clock that is much further ahead are not in force at all."""
    attested, provisioned = an_order(), an_order()
    clock.pass_by(days=1)
    issuer.issue(attested)
    clock.step(minutes=-2)
    with pytest.raises(OutageError):
        issuer.issue(provisioned)
    with sessions.begin() as session:
        accept_clock(session, clock, "olga", "the time server was wrong")
    second = issuer.issue(provisioned)

    assert issuer.current(7) == second
    issuer.installed(7, (second.ldevid_serial, second.lak_serial))

    assert in_force(sessions) == {second.ldevid_serial, second.lak_serial}
    issuer.reissue(7)
    third = issuer.issue(replace(provisioned, enrollment=uuid4()))
    assert not issuer.renewal_due(7), "the reissued are older, whatever the clock said"
    assert issuer.current(7) == third


def test_certificates_of_keys_that_came_to_nothing_are_superseded_by_those_that_a_check_names(issuer, sessions, clock):
    """As of a provision that enrolled and was cancelled before it erased: the machine goes on with the keys before."""
    before, cancelled = an_order(), an_order()
    first = issuer.issue(before)
    clock.pass_by(days=250)
    issuer.issue(cancelled)
    keys = before.ldevid_public, before.lak_public

    assert issuer.renewal_due(7, *keys), "those of other keys are no reason to let the machine's own end"
    renewed = issuer.issue(replace(before, enrollment=uuid4()))
    issuer.installed(7, (first.ldevid_serial, first.lak_serial), *keys)
    assert len(in_force(sessions)) == 6, "a check that names older ones supersedes nothing"
    issuer.installed(7, (renewed.ldevid_serial, renewed.lak_serial), *keys)

    assert in_force(sessions) == {renewed.ldevid_serial, renewed.lak_serial}


@pytest.mark.parametrize("kinds", [("ldevid", "lak"), ("ldevid",), ("lak",)])
def test_of_two_workers_that_issue_for_the_same_enrollment_one_gives_its_serials_up(
    issuer, sessions, monkeypatch, kinds
):
    order, real, others = an_order(), issuing.FleetIssuer._begun, []

    def another_is_faster(self, *arguments):
        begun = real(self, *arguments)
        if not others:
            others.append(None)
            with monkeypatch.context() as alone:
                alone.setattr(issuing.FleetIssuer, "_begun", real)
                keys = {kind: public for kind, public in keys_of(order).items() if kind in kinds}
                others[:] = self._issue(order, keys).values()
        return begun

    monkeypatch.setattr(issuing.FleetIssuer, "_begun", another_is_faster)
    made = issuer.issue(order)

    assert set(others) <= {made.ldevid_serial, made.lak_serial}
    assert in_force(sessions) == {made.ldevid_serial, made.lak_serial}
    with sessions() as session:
        given_up = [row for row in session.scalars(select(CertificateRow)) if row.state == "unissued"]
    assert len(given_up) == len(kinds)
    assert all(row.revoked_at for row in given_up)


def keys_of(order):
    return {Kind.LDEVID: order.ldevid_public, Kind.LAK: order.lak_public}


def test_a_key_that_has_a_good_certificate_gets_no_other(issuer, sessions):
    order = an_order()
    first = issuer.issue(order)

    again = issuer.issue(replace(order, enrollment=uuid4(), ldevid_public=public_area()))

    assert again.lak_serial == first.lak_serial
    assert again.ldevid_serial != first.ldevid_serial


def in_force(sessions):
    with sessions() as session:
        return {row.serial for row in session.scalars(select(CertificateRow)) if row.revoked_at is None}


def test_a_list_is_never_signed_by_a_key_that_is_not_the_authoritys(authority, tree, issued):
    before = authority.revocation_list("devid")
    (tree.directory / "devid.key").write_bytes((tree.directory / "ak.key").read_bytes())

    with pytest.raises(OutageError, match="the key of devid is not that of its certificate"):
        authority.revoke(7, "keyCompromise")

    assert authority.revocation_list("devid") == before


@pytest.mark.parametrize("by", ["revoke", "hold", "retire", "sweep"])
@pytest.mark.parametrize("step", ["_take_serials", "_intend"])
def test_what_is_revoked_while_it_is_being_issued_gives_no_certificate(
    issuer, authority, sessions, tree, clock, monkeypatch, by, step
):
    real = getattr(issuing.FleetIssuer, step)

    def meanwhile(self, *arguments):
        done = real(self, *arguments)
        if by == "revoke":
            authority.revoke(7, "keyCompromise")
        elif by == "hold":
            authority.hold(7)
        elif by == "retire":
            with sessions.begin() as session:
                retire_issuer(session, tree.issuer(Tier.DEVID).fingerprint, clock.now())
        else:
            clock.pass_by(minutes=6)
            self.sweep_intents()
        return done

    monkeypatch.setattr(issuing.FleetIssuer, step, meanwhile)
    if (by, step) == ("sweep", "_take_serials"):
        assert issuer.issue(an_order()), "nothing was signed yet: the sweep leaves it alone"
        return
    with pytest.raises(OutageError, match="revoked or given up while it was made"):
        issuer.issue(an_order())

    with sessions() as session:
        rows = {row.kind: row for row in session.scalars(select(CertificateRow))}
    assert rows["ldevid"].state == "unissued"
    assert [row.der for row in rows.values()] == [None, None]
    authority.release(7)
    authority.keep_fresh()
    listed = x509.load_der_x509_crl(authority.revocation_list("devid"))
    assert [f"{entry.serial_number:x}" for entry in listed] == ([rows["ldevid"].serial] if step == "_intend" else [])


@pytest.mark.parametrize("withdraw", ["hold", "revoke"])
def test_keys_whose_certificates_are_withdrawn_are_not_renewed(issuer, authority, clock, withdraw):
    keys = an_order()
    issuer.issue(keys)
    clock.pass_by(hours=1)
    authority.hold(7) if withdraw == "hold" else authority.revoke(7, "keyCompromise")

    with pytest.raises(RefusedError, match="held or revoked"):
        issuer.issue(replace(keys, enrollment=uuid4(), renewal=True))

    assert issuer.issue(replace(keys, enrollment=uuid4())), "a run certifies them again"
    assert issuer.issue(replace(keys, enrollment=uuid4(), renewal=True))


def test_certificates_of_a_time_when_the_clock_was_ahead_do_not_count_against_the_rate_limit(sessions, tree, clock):
    issuer = FleetIssuer(sessions, tree, clock, SystemRandom(), "https://x.example.org", per_minute=1)
    clock.pass_by(days=30)
    issuer.issue(an_order())
    clock.step(days=-29)
    watch_clock(sessions, clock)
    with sessions.begin() as session:
        accept_clock(session, clock, "olga", "it was ahead")

    assert issuer.issue(an_order())


@pytest.mark.parametrize("file", ["devid.pem", "ak.pem", "generations.json"])
def test_an_authority_that_cannot_be_read_is_an_outage(issuer, issued, tree, file):
    (tree.directory / file).write_text("half")

    for ask in (issuer.issuing, lambda: issuer.renewal_due(7), lambda: issuer.current(7)):
        with pytest.raises(OutageError, match=file):
            ask()


@pytest.mark.parametrize("take_back", ["hold", "revoke", "keep_fresh"])
def test_a_key_that_cannot_be_used_keeps_no_other_list_back(issuer, issued, authority, tree, monkeypatch, take_back):
    authority.keep_fresh()
    (tree.directory / "devid.key").chmod(0o644)
    if take_back == "keep_fresh":
        monkeypatch.setattr(FleetAuthority, "_publish", lambda *_: None)
        authority.hold(7)
        with pytest.raises(SecretFileError, match="mode 0644"):
            authority.keep_fresh()
    else:
        with pytest.raises(OutageError, match="mode 0644"):
            authority.hold(7) if take_back == "hold" else authority.revoke(7, "keyCompromise")

    assert not not_withdrawn(issuer, 7, issued.ldevid_serial), "it counts at once all the same"
    (listed,) = x509.load_der_x509_crl(authority.revocation_list("ak"))
    assert listed.serial_number == int(issued.lak_serial, 16)

    (tree.directory / "devid.key").chmod(0o600)
    authority.keep_fresh()
    (listed,) = x509.load_der_x509_crl(authority.revocation_list("devid"))
    assert listed.serial_number == int(issued.ldevid_serial, 16)


@pytest.mark.parametrize("reason", ["removeFromCRL", "certificateHold", "because"])
def test_what_is_no_reason_of_a_revocation_is_refused(issuer, issued, authority, reason):
    with pytest.raises(ValueError, match="no reason of a revocation"):
        authority.revoke(7, reason)

    assert issuer.current(7) == issued


def test_an_unspecified_reason_is_said_by_silence(issued, authority):
    authority.revoke(7, "unspecified")

    (entry,) = x509.load_der_x509_crl(authority.revocation_list("devid"))
    assert entry.serial_number == int(issued.ldevid_serial, 16)
    assert not list(entry.extensions)
    assert authority.keep_fresh() == ()


@pytest.mark.parametrize("content", [None, b"half", "of another root"])
def test_a_root_list_that_is_none_is_told_and_not_given(authority, tree, tmp_path, clock, content):
    authority.keep_fresh()
    if content == "of another root":
        other = make_tree(tmp_path / "other", "Example", "https://x.example.org", clock.now(), SystemRandom())
        content = sign_root_list(other, clock.now())
    if content is not None:
        tree.root_list_file.write_bytes(content)

    assert authority.revocation_list("root") is None
    assert authority.root_list_end() is None
    assert authority.late() == ("the root's revocation list is missing: bring root.key back and run `fleetd ca init`",)


def test_the_roots_list_is_numbered_upwards_also_within_a_second_and_after_the_clock_was_set_back(tree, clock):
    numbers = []
    for days in (0, 0, -30, 1):
        clock.step(days=days)
        tree.root_list_file.write_bytes(sign_root_list(tree, clock.now()))
        listed = x509.load_der_x509_crl(tree.root_list_file.read_bytes())
        numbers.append(listed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)

    assert numbers == sorted(set(numbers))


def test_a_half_written_or_lost_key_is_told_by_the_next_ceremony(tree, clock):
    def again():
        make_tree(tree.directory, "Example", "https://x.example.org", clock.now(), SystemRandom())

    again()
    for name, words in (
        ("devid.key", "replace the authority with `fleetd ca rotate begin devid`"),
        ("service.key", "empty"),
    ):
        file = tree.directory / name
        whole = file.read_bytes()
        for harm in (lambda file=file: file.write_bytes(b""), file.unlink)[: 1 if name == "service.key" else 2]:
            harm()
            with pytest.raises((TreeError, SecretFileError), match=words):
                again()
        file.touch(0o600)
        file.write_bytes(whole)
    (tree.directory / "ak.key").write_bytes((tree.directory / "devid.key").read_bytes())
    with pytest.raises(TreeError, match="key of ak is not that of its certificate"):
        again()


def test_a_folder_that_cannot_be_made_is_told(tmp_path, clock):
    (tmp_path / "ca").write_text("a file")

    with pytest.raises(TreeError, match="File exists"):
        make_tree(tmp_path / "ca", "Example", "https://x.example.org", clock.now(), SystemRandom())


@pytest.mark.parametrize("step", ["fsync", "fdopen"])
def test_a_crash_while_a_key_is_written_leaves_no_key(tmp_path, monkeypatch, step):
    def crash(*_):
        raise KeyboardInterrupt

    key = ec.generate_private_key(ec.SECP256R1())
    with monkeypatch.context() as crashing:
        crashing.setattr(os, step, crash)
        with pytest.raises(KeyboardInterrupt):
            write_key(tmp_path / "devid.key", key)
    assert not (tmp_path / "devid.key").exists()

    write_key(tmp_path / "devid.key", key)
    assert FileSigner(tmp_path / "devid.key").private_key().public_key() == key.public_key()
    with pytest.raises(FileExistsError):
        write_key(tmp_path / "devid.key", key)
    assert [file.name for file in tmp_path.iterdir()] == ["devid.key"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"manufacturer": "I\0BM\ud800", "model": "\n", "version": 7}, ["IBM", "unknown", "7"]),
        ({"manufacturer": "M" * 70, "model": ["x"], "version": " "}, ["M" * 64, "['x']", "unknown"]),
        ("no object", ["unknown", "unknown", "unknown"]),
    ],
)
def test_whatever_a_tpm_says_of_itself_can_be_certified(issuer, said, shown):
    issued = issuer.issue(an_order(facts={"tpm": said}))

    names = load(issued.certificates.lak).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [attribute.value for attribute in names[0].value] == shown
