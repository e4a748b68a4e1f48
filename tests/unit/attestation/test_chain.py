"""Which path is found among several candidates, and where its bounds lie."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ObjectIdentifier

from fleetd.core.attestation.certificate import parse_certificate
from fleetd.core.attestation.chain import MAX_DEPTH, MAX_SENT, MAX_STEPS, find_path
from fleetd.core.attestation.endorsement import certificate_of, key_type, sent_certificates, vendor
from fleetd.core.attestation.revocation import RevocationList, parse_revocation_list
from fleetd.core.attestation.roots import Origin, TrustStore
from fleetd.core.attestation.structures import Curve, parse_public
from fleetd.core.attestation.x509_signature import is_signed_by
from fleetd.core.findings import endorsement as found
from tests.unit.attestation.maker import NOW, Ca, ecc_ek, ecc_key, ek_certificate, rsa_ek, rsa_key


def leaf_of(issuer, **shape):
    return parse_certificate(ek_certificate(issuer, ecc_key().public_key(), **shape))


def unnamed(ca):
    """The certificate of a CA whose issuer is found by name only."""
    return replace(ca.parsed, authority_key_id=None)


@pytest.mark.parametrize("wrong_first", [True, False])
def test_a_candidate_that_signed_nothing_does_not_hide_the_one_that_did(wrong_first):
    right, wrong = Ca("CA"), Ca("CA")
    links = [wrong.parsed, right.parsed] if wrong_first else [right.parsed, wrong.parsed]
    root = Ca("root")
    top = Ca("CA", root, key=right.key)

    path = find_path(
        leaf_of(right, aki=False), TrustStore.of(manufacturers=[root.parsed], links=[*links, top.parsed]), (), NOW
    )

    assert path.trusted


@pytest.mark.parametrize("unfit_first", [True, False])
def test_an_unfit_certificate_of_a_key_does_not_hide_a_fit_one(unfit_first):
    root = Ca("root")
    fit = Ca("CA", root)
    unfit = Ca("CA", root, key=fit.key, ca=False)
    links = [unfit.parsed, fit.parsed] if unfit_first else [fit.parsed, unfit.parsed]

    assert find_path(leaf_of(fit), TrustStore.of(manufacturers=[root.parsed], links=links), (), NOW).trusted


@pytest.mark.parametrize("own_first", [True, False])
def test_a_ca_of_its_issuer_s_name_does_not_hide_its_issuer(own_first):
    root = Ca("root")
    middle = Ca("CA", root)
    issuing = Ca("CA", middle)
    links = [unnamed(issuing), middle.parsed] if own_first else [middle.parsed, unnamed(issuing)]

    path = find_path(leaf_of(issuing), TrustStore.of(manufacturers=[root.parsed], links=links), (), NOW)

    assert path.trusted
    assert len(path.certificates) == 4


@pytest.mark.parametrize(
    ("cas", "refusals"),
    [(MAX_DEPTH - 1, ()), (MAX_DEPTH, (found.ChainRefused("CN=CA 1", "more than 6 certificates"),))],
)
def test_a_path_has_six_certificates_at_most(cas, refusals):
    chain = [Ca("root")]
    while len(chain) < cas:
        chain.append(Ca(f"CA {len(chain)}", chain[-1]))
    store = TrustStore.of(manufacturers=[chain[0].parsed], links=[ca.parsed for ca in chain[1:]])

    path = find_path(leaf_of(chain[-1]), store, (), NOW)

    assert path.findings == refusals
    assert len(path.certificates) == MAX_DEPTH


def test_a_trusted_ca_is_a_path_of_its_own_and_a_trusted_leaf_is_none():
    root = Ca("root")
    leaf = leaf_of(root)

    alone = find_path(root.parsed, TrustStore.of(owners=[root.parsed]), (), NOW)
    vouching_for_itself = find_path(leaf, TrustStore.of(owners=[leaf]), (), NOW)

    assert (alone.origin, alone.certificates) == (Origin.OWNER, (root.parsed,))
    assert alone.findings == (found.NotAManufacturer("CN=root"),)
    assert not vouching_for_itself.trusted
    assert vouching_for_itself.certificates == (leaf,)


CRITICAL = [x509.UnrecognizedExtension(ObjectIdentifier(f"1.2.3.{last}"), b"\x05\x00") for last in (4, 5)]


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ({"ca": False}, "it is no CA, and signed a certificate"),
        ({"extra": CRITICAL}, "it has critical extensions that are not understood: 1.2.3.4, 1.2.3.5"),
        ({"key": rsa_key(1024, "weak CA")}, "its key has 1024 bits"),
        ({"key": rsa_key(2048, "weak CA", exponent=3)}, "its RSA exponent is 3"),
    ],
    ids=["no CA", "critical", "RSA-1024", "e=3"],
)
def test_attack_an_issuer_that_anybody_could_be_or_forge_is_refused_in_words(shape, problem):
    root = Ca("root")
    issuing = Ca("CA", root, **shape)

    path = find_path(leaf_of(issuing), TrustStore.of(manufacturers=[root.parsed], links=[issuing.parsed]), (), NOW)

    assert (path.trusted, path.findings) == (False, (found.ChainRefused("CN=CA", problem),))


@pytest.mark.parametrize("turned", [False, True])
def test_of_dead_ends_of_one_length_the_first_is_shown(turned):
    first, second = Ca("CA", Ca("A")), Ca("CA", Ca("B"))
    again = Ca("CA", Ca("B"), key=first.key)
    links = [first.parsed, again.parsed, second.parsed]

    path = find_path(leaf_of(first), TrustStore.of(links=links[::-1] if turned else links), (), NOW)

    assert path.certificates[1] == (again.parsed if turned else first.parsed)
    assert len(path.certificates) == 2


def test_a_ca_with_a_sound_rsa_key_may_issue():
    root = Ca("root")
    issuing = Ca("CA", root, key=rsa_key(name="CA"))
    store = TrustStore.of(manufacturers=[root.parsed], links=[issuing.parsed])

    assert find_path(leaf_of(issuing), store, (), NOW).findings == ()


def test_the_link_between_two_cas_is_verified_once_for_all_machines(monkeypatch):
    root = Ca("root")
    issuing = Ca("CA", root)
    store = TrustStore.of(manufacturers=[root.parsed], links=[issuing.parsed])
    verified = []

    def counted(certificate, issuer):
        verified.append(certificate)
        return is_signed_by(certificate, issuer)

    monkeypatch.setattr("fleetd.core.attestation.chain.is_signed_by", counted)
    monkeypatch.setattr("fleetd.core.attestation.x509_signature.is_signed_by", counted)
    leaves = [leaf_of(issuing) for _ in range(3)]

    assert all(find_path(leaf, store, (), NOW).trusted for leaf in leaves)
    assert verified == [leaves[0], issuing.parsed, *leaves[1:]]


def test_attack_more_signatures_than_are_tried_are_refused_in_words(monkeypatch):
    tried = []
    monkeypatch.setattr(
        "fleetd.core.attestation.chain.is_signed_by", lambda *pair: tried.append(pair) or is_signed_by(*pair)
    )
    crowd = [Ca("Crowd") for _ in range(MAX_STEPS + 1)]
    store = TrustStore.of(links=[ca.parsed for ca in crowd])

    path = find_path(leaf_of(Ca("Crowd"), aki=False), store, (), NOW)

    assert len(tried) == MAX_STEPS
    assert path.findings == (
        found.ChainRefused("(no subject)", f"more than {MAX_STEPS} signatures would have to be tried"),
    )


def test_as_many_signatures_are_tried_as_there_may_be():
    right = Ca("Crowd")
    crowd = [*(Ca("Crowd") for _ in range(MAX_STEPS - 1)), right]
    store = TrustStore.of(manufacturers=[right.parsed], links=[ca.parsed for ca in crowd])

    assert find_path(leaf_of(right, aki=False), store, (), NOW).trusted


def test_a_certificate_that_is_not_in_force_is_told_with_its_dates():
    root = Ca("root", until=NOW + timedelta(days=9000))
    leaf = leaf_of(root, since=NOW - timedelta(days=2), until=NOW - timedelta(days=1))

    path = find_path(leaf, TrustStore.of(manufacturers=[root.parsed]), (), NOW)

    assert path.findings == (found.CertificateNotInForce("(no subject)", "2026-05-30", "2026-05-31"),)


def test_attack_a_list_signed_with_pss_revokes_too():
    root = Ca("root", key=rsa_key(name="CA"))
    leaf = leaf_of(root)
    revoked = x509.RevokedCertificateBuilder().serial_number(int.from_bytes(leaf.serial)).revocation_date(NOW).build()
    listed = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(root.name)
        .last_update(NOW)
        .next_update(NOW + timedelta(days=1))
        .add_revoked_certificate(revoked)
        .sign(root.key, hashes.SHA256(), rsa_padding=padding.PSS(padding.MGF1(hashes.SHA256()), 32))
    )
    lists = [parse_revocation_list(listed.public_bytes(Encoding.DER))]

    path = find_path(leaf, TrustStore.of(manufacturers=[root.parsed], lists=lists), (), NOW)

    assert path.findings == (found.CertificateRevoked("(no subject)"),)


def test_a_refused_path_shows_how_far_it_came_and_where_it_ended():
    root = Ca("root")
    issuing = Ca("Issuing CA", root)
    leaf = leaf_of(issuing)

    incomplete = find_path(leaf, TrustStore.of(links=[issuing.parsed]), (), NOW)
    barred = find_path(
        leaf, TrustStore.of(manufacturers=[Ca("x").parsed], links=[Ca("y", ca=False, key=issuing.key).parsed]), (), NOW
    )

    assert incomplete.certificates == (leaf, issuing.parsed)
    assert incomplete.findings == (found.ChainIncomplete("CN=Issuing CA", "CN=root"),)
    assert barred.certificates == (leaf,)


@pytest.mark.parametrize(
    ("since", "accepted"),
    [(datetime(2019, 12, 31, tzinfo=UTC), True), (datetime(2020, 1, 1, tzinfo=UTC), False)],
)
def test_a_leaf_signed_with_sha1_below_a_root_is_accepted_until_such_could_be_forged(since, accepted, monkeypatch):
    root = Ca("root")
    leaf = leaf_of(root, since=since)
    old = replace(leaf, signature_algorithm="1.2.840.10045.4.1")
    monkeypatch.setattr("fleetd.core.attestation.chain.is_signed_by", lambda below, issuer: True)

    assert find_path(old, TrustStore.of(manufacturers=[root.parsed]), (), NOW).trusted is accepted


@pytest.mark.parametrize("moment", ["not_before", "not_after"])
def test_a_certificate_is_in_force_in_its_first_and_its_last_second(moment):
    root = Ca("root", until=NOW + timedelta(days=9000))
    leaf = leaf_of(root)

    path = find_path(leaf, TrustStore.of(manufacturers=[root.parsed]), (), getattr(leaf, moment))

    assert [each.code for each in path.findings] == []


@pytest.mark.parametrize(
    ("days", "remarks"),
    [(None, ()), (-1, (found.RevocationListStale("CN=root", "2026-05-31"),)), (0, ()), (1, ())],
)
def test_a_revocation_list_is_stale_after_its_next_update_and_never_without_one(days, remarks):
    root = Ca("root")
    until = None if days is None else NOW + timedelta(days=days)
    listed = RevocationList(b"", root.parsed.subject, NOW, until, frozenset(), "1.2.3", b"", b"")
    store = TrustStore.of(manufacturers=[root.parsed], lists=[listed])

    assert find_path(leaf_of(root), store, (), NOW).findings == remarks


def test_only_so_many_certificates_are_read_of_what_a_machine_sends():
    one = Ca("one").der

    assert len(sent_certificates((one * (MAX_SENT + 4),))) == MAX_SENT
    assert len(sent_certificates((one,) * (MAX_SENT + 4))) == MAX_SENT
    assert [each.raw for each in sent_certificates((one + b"\x30\x03abc", b"", b"\xff" * 9, one + b"\xff"))] == [
        one,
        one,
    ]


def test_an_rsa_certificate_stands_for_its_own_key_only():
    issuer, key, other = Ca("root"), rsa_key(name="ek"), rsa_key(name="other ek")
    certificate = ek_certificate(issuer, key.public_key())

    def public(of):
        return parse_public(rsa_ek(of.public_key().public_numbers().n))

    assert certificate_of(public(key), certificate) is not None
    assert certificate_of(public(other), certificate) is None
    assert certificate_of(parse_public(ecc_ek(ecc_key().public_key())), certificate) is None
    assert certificate_of(parse_public(rsa_ek(3 << 2046)), certificate) is None


@pytest.mark.parametrize(
    ("public", "shown"),
    [
        (rsa_ek(rsa_key().public_key().public_numbers().n), "rsa-2048"),
        *(
            (ecc_ek(ecc_key(curve).public_key(), curve=curve), f"p-{bits}")
            for curve, bits in ((Curve.P256, 256), (Curve.P384, 384), (Curve.P521, 521))
        ),
    ],
)
def test_kinds_of_keys_are_named_as_netbox_shows_them(public, shown):
    assert key_type(parse_public(public)) == shown


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("id:494E5443", "INTC"),
        ("ID:494e5443", "INTC"),
        ("id:4E544300", "NTC"),
        ("id:49465820", "IFX"),
        ("id:FFFFFFFF", "id:FFFFFFFF"),
        ("id:xyz", "id:xyz"),
        ("id:00000000", "id:00000000"),
        (" INTC ", "INTC"),
        ("", ""),
    ],
)
def test_a_vendor_is_known_by_its_letters(text, letters):
    assert vendor(text) == letters


def test_sha1_is_told_of_each_certificate_below_the_root_and_not_of_the_root_itself(monkeypatch):
    root = Ca("root")
    issuing = Ca("Issuing CA", root)
    weak = [replace(ca.parsed, signature_algorithm="1.2.840.113549.1.1.5") for ca in (root, issuing)]
    monkeypatch.setattr("fleetd.core.attestation.chain.is_signed_by", lambda below, issuer: True)
    monkeypatch.setattr("fleetd.core.attestation.chain.link_holds", lambda below, issuer: True)

    path = find_path(leaf_of(issuing), TrustStore.of(manufacturers=weak[:1], links=weak[1:]), (), NOW)

    assert [finding.link for finding in path.findings] == ["CN=Issuing CA"]


def test_a_key_on_a_curve_that_no_tpm_has_is_shown_as_one():
    public = parse_public(ecc_ek(ecc_key().public_key()))

    assert key_type(replace(public, parameters=replace(public.parameters, curve=0x20))) == "ecc"
