"""Every TPM call, on a real software TPM without resource manager: three objects may be loaded, no more."""

from contextlib import contextmanager

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from tpm2_pytss import ESAPI
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPMA_NV
from tpm2_pytss.types import TPM2B_NV_PUBLIC, TPM2B_PUBLIC, TPM2B_SENSITIVE_CREATE, TPMS_NV_PUBLIC

from fleet_machine.tpm import LakAlgorithm, opened_tpm
from fleet_machine.tpm.calls import tcti_of
from fleet_machine.tpm.errors import LoadRefusedError, TpmOwnedError
from fleet_machine.tpm.identity import split_der
from fleet_machine.tpm.keys import name_of
from fleet_machine.tpm.templates import L2, sized
from tests.swtpm import start_swtpm

UNIQUE, OTHER = b"u" * 32, b"v" * 32


@contextmanager
def esapi(tpm):
    opened = ESAPI(tpm.tcti)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def own_tpm(tmp_path):
    """A TPM that the test may change for good."""
    with start_swtpm(tmp_path / "own", certificates=False) as tpm:
        yield tpm


def pem_key(public):
    return load_pem_public_key(TPM2B_PUBLIC.unmarshal(sized(public))[0].to_pem())


def credential(tpm, ek_public, name, secret):
    """Let the TPM itself make a credential (TPM2_MakeCredential)."""
    with esapi(tpm) as esys:
        handle = esys.load_external(TPM2B_PUBLIC.unmarshal(sized(ek_public))[0], hierarchy=ESYS_TR.NULL)
        blob, encrypted = esys.make_credential(handle, secret, name)
        esys.flush_context(handle)
        return blob.marshal(), encrypted.marshal()


def write_nv(tpm, index, content):
    with esapi(tpm) as esys:
        attributes = TPMA_NV.OWNERWRITE | TPMA_NV.OWNERREAD | TPMA_NV.AUTHREAD | TPMA_NV.NO_DA
        public = TPM2B_NV_PUBLIC(
            nvPublic=TPMS_NV_PUBLIC(
                nvIndex=index, nameAlg=TPM2_ALG.SHA256, attributes=attributes, dataSize=len(content)
            )
        )
        handle = esys.nv_define_space(b"", public)
        for at in range(0, len(content), 512):
            esys.nv_write(handle, content[at : at + 512], offset=at, auth_handle=ESYS_TR.OWNER)


def test_the_endorsement_keys_are_those_that_their_certificates_name(tpm):
    with opened_tpm(tpm.tcti) as opened:
        certified = {ek.label: ek for ek in opened.endorsement_keys() if ek.certificate}

    assert set(certified) == {"L-1", "H-3"}
    for ek in certified.values():
        named = x509.load_der_x509_certificate(split_der(ek.certificate)[0]).public_key()
        assert named.public_numbers() == pem_key(ek.public).public_numbers()


@pytest.mark.parametrize("label", ["L-1", "L-2", "H-3"])
def test_a_credential_for_each_endorsement_key_is_activated(tpm, label):
    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
        name = name_of(lak.public)
    with opened_tpm(tpm.tcti) as opened:
        ek = next(ek for ek in opened.endorsement_keys() if ek.label == label)
    blob, secret = credential(tpm, ek.public, name, b"s" * 32)

    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
        assert opened.activate(ek, lak, blob, secret) == b"s" * 32


def test_a_credential_for_another_lak_is_not_activated(tpm):
    from fleet_machine.tpm.errors import TpmError

    with opened_tpm(tpm.tcti) as opened, opened.lak(OTHER, None, None) as lak:
        name = name_of(lak.public)
        ek = opened.endorsement_keys()[0]
    blob, secret = credential(tpm, ek.public, name, b"s" * 32)

    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak, pytest.raises(TpmError):
        opened.activate(ek, lak, blob, secret)


@pytest.mark.parametrize("algorithm", LakAlgorithm)
def test_a_lak_is_the_same_after_a_power_cycle_and_another_for_another_unique(tpm, algorithm):
    def made(unique):
        with opened_tpm(tpm.tcti) as opened, opened.lak(unique, algorithm, None) as lak:
            assert lak.algorithm is algorithm
            return lak.public

    before = made(UNIQUE)
    tpm.power_cycle()

    assert made(UNIQUE) == before
    assert made(OTHER) != before


def test_a_saved_lak_loads_again_for_its_own_unique_only(tpm):
    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
        public, context = lak.public, lak.context
    with opened_tpm(tpm.tcti) as opened:
        with opened.lak(UNIQUE, None, context) as again:
            assert (again.public, again.context) == (public, context)
        with opened.lak(OTHER, None, context) as other:
            assert other.public != public


@pytest.mark.parametrize("context", [b"", b"rubbish", b"u" * 600], ids=["empty", "short", "long"])
def test_a_context_that_does_not_load_is_made_again(tpm, context):
    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, context) as lak:
        assert lak.algorithm is LakAlgorithm.P256


def test_an_ldevid_loads_again_after_a_power_cycle(tpm):
    with opened_tpm(tpm.tcti) as opened:
        pair = opened.make_ldevid()
    tpm.power_cycle()

    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
        assert opened.certify(pair, lak, b"e" * 32).attest[:4] == b"\xffTCG"


def test_an_ldevid_of_another_tpm_does_not_load(tpm, own_tpm):
    with opened_tpm(own_tpm.tcti) as opened:
        pair = opened.make_ldevid()

    with opened_tpm(tpm.tcti) as opened, pytest.raises(LoadRefusedError), opened.ldevid(pair):
        pass


def test_a_quote_covers_more_pcrs_than_one_read_gives(tpm):
    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
        quoted = opened.quote(lak, "sha256", tuple(range(24)), b"e" * 32)

    assert sorted(quoted.pcrs) == list(range(24))
    assert {len(value) for value in quoted.pcrs.values()} == {32}


def test_a_bank_that_is_not_active_gives_no_values(tpm):
    with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
        assert opened.quote(lak, "sha1", (0, 1), b"e" * 32).pcrs == {}


def test_no_object_stays_loaded(tpm):
    for _ in range(4):
        with opened_tpm(tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
            opened.endorsement_keys()
            opened.certify(opened.make_ldevid(), lak, b"e" * 32)

    with opened_tpm(tpm.tcti) as opened:
        assert len(opened.endorsement_keys()) == 3


def test_the_chain_that_the_maker_left_is_read_across_indexes(own_tpm):
    certificates = [b"\x30\x82\x03\x20" + bytes([n]) * 800 for n in range(2)]
    whole = b"".join(certificates) + b"\xff" * 20
    write_nv(own_tpm, 0x01C00100, whole[:1000])
    write_nv(own_tpm, 0x01C00101, whole[1000:])

    with opened_tpm(own_tpm.tcti) as opened:
        assert opened.chain() == tuple(certificates)


def test_a_nonce_that_the_maker_left_changes_the_endorsement_key(own_tpm):
    def key():
        with opened_tpm(own_tpm.tcti) as opened:
            return next(ek.public for ek in opened.endorsement_keys() if ek.label == "L-2")

    before = key()
    write_nv(own_tpm, L2.nonce_index, b"n" * 32)

    assert key() != before


def test_a_persistent_endorsement_key_is_used_instead_of_making_one(own_tpm):
    with opened_tpm(own_tpm.tcti) as opened:
        made = next(ek.public for ek in opened.endorsement_keys() if ek.label == "L-2")
    with esapi(own_tpm) as esys:
        template = TPM2B_PUBLIC.unmarshal(sized(L2.public))[0]
        handle = esys.create_primary(TPM2B_SENSITIVE_CREATE(), template, ESYS_TR.ENDORSEMENT)[0]
        esys.evict_control(ESYS_TR.OWNER, handle, L2.persistent)
        esys.flush_context(handle)

    with opened_tpm(own_tpm.tcti) as opened:
        assert next(ek.public for ek in opened.endorsement_keys() if ek.label == "L-2") == made


@pytest.mark.parametrize("hierarchy", ["OWNER", "ENDORSEMENT"])
def test_a_hierarchy_with_a_password_is_named(own_tpm, hierarchy):
    with esapi(own_tpm) as esys:
        esys.hierarchy_change_auth(getattr(ESYS_TR, hierarchy), b"secret")

    with opened_tpm(own_tpm.tcti) as opened, pytest.raises(TpmOwnedError, match=hierarchy.lower()):
        opened.endorsement_keys()


def test_a_hierarchy_that_is_switched_off_is_named(own_tpm):
    with esapi(own_tpm) as esys:
        esys.hierarchy_control(ESYS_TR.PLATFORM, ESYS_TR.ENDORSEMENT, False)

    with opened_tpm(own_tpm.tcti) as opened, pytest.raises(TpmOwnedError, match="endorsement"):
        opened.endorsement_keys()


def test_a_tpm_that_power_cuts_locked_is_unlocked(own_tpm):
    for cut in range(6):
        with opened_tpm(own_tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
            ek = opened.endorsement_keys()[0]
            name = name_of(lak.public)
        blob, secret = credential(own_tpm, ek.public, name, b"s" * 32)
        with opened_tpm(own_tpm.tcti) as opened, opened.lak(UNIQUE, None, None) as lak:
            opened.endorsement_keys()
            assert opened.activate(ek, lak, blob, secret) == b"s" * 32, cut
        own_tpm.power_cycle()


def test_the_tpm_says_who_made_it(tpm):
    with opened_tpm(tpm.tcti) as opened:
        assert opened.identity().manufacturer == "IBM"


def test_a_given_tcti_is_used_as_it_is():
    assert tcti_of("swtpm:path=/x") == "swtpm:path=/x"
