"""What a log says: only what its digests vouch for, in every form that firmware and boot loaders write."""

import hashlib
import struct
from uuid import UUID

import pytest

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.coverage import Extent, covered
from fleetd.core.attestation.eventlog.device_path import image_source
from fleetd.core.attestation.eventlog.facts import ImageRole, LineSource, SeparatorState
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import assume_log, judge_log
from fleetd.core.attestation.eventlog.text import firmware_text, one_line
from fleetd.core.attestation.eventlog.variables import (
    SignatureKind,
    authority_of,
    parse_signatures,
    parse_variable,
)
from fleetd.core.attestation.eventlog.views import view_event
from fleetd.core.attestation.structures import MalformedStructure
from tests.unit.attestation.evidence import (
    GLOBAL,
    SECURITY,
    SHA256_LIST,
    SHIM,
    X509,
    LogBuilder,
    a_boot,
    agile_event,
    certificate_like,
    load_event,
    signature_list,
    variable,
)


def facts_of(built, raw=None, bank=Bank.SHA256):
    return read_facts(judge_log(parse_log(built.bytes() if raw is None else raw), bank, built.pcrs[bank]))


def rewritten(built, index, **changes):
    """The log with one event's type or data replaced and its digests kept."""
    log = parse_log(built.bytes())
    event = log.events[index]
    digests = {bank: event.digests[log.column(bank)] for bank in built.banks}
    again = list(built.events)
    again[index] = agile_event(
        changes.get("pcr", event.pcr), changes.get("kind", event.kind), digests, changes.get("data", log.data(event))
    )
    return built.bytes()[: -len(b"".join(built.events))] + b"".join(again)


def index_of(built, wanted):
    log = parse_log(built.bytes())
    return next(i for i, event in enumerate(log.events) if wanted in log.data(event))


@pytest.mark.parametrize(("value", "state"), [(b"\x01", True), (b"\x00", False), (b"", False)])
def test_secure_boot_is_read_from_its_variable(value, state):
    assert facts_of(a_boot(secure_boot=value)).secure_boot is state


def test_secure_boot_is_not_told_by_a_log_without_the_variable():
    assert facts_of(LogBuilder().separators()).secure_boot is None


def test_two_contradicting_secure_boot_variables_tell_nothing():
    built = LogBuilder().secure_boot(b"\x01").secure_boot(b"\x00")

    assert facts_of(built).secure_boot is None


def test_a_secure_boot_variable_whose_data_was_rewritten_tells_nothing():
    built = a_boot(secure_boot=b"\x00")
    index = index_of(built, "SecureBoot".encode("utf-16-le"))
    raw = rewritten(built, index, data=variable(GLOBAL, "SecureBoot", b"\x01"))

    facts = facts_of(built, raw)

    assert facts.secure_boot is None
    assert index in facts.opaque


def test_a_secure_boot_variable_of_another_vendor_is_not_the_one():
    built = LogBuilder().add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(SHIM, "SecureBoot", b"\x01"))

    assert facts_of(built).secure_boot is None


def test_a_secure_boot_variable_in_another_pcr_is_not_the_one():
    built = LogBuilder().add(1, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b"\x01"))

    assert facts_of(built).secure_boot is None


def test_a_secure_boot_variable_measured_after_the_separator_is_not_firmware_s():
    built = LogBuilder().separators()
    built.add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b"\x01"))

    assert facts_of(built).secure_boot is None


def test_a_secure_boot_variable_with_a_rewritten_type_only_disappears():
    built = a_boot()
    index = index_of(built, "SecureBoot".encode("utf-16-le"))

    for kind in (kinds.EFI_ACTION, kinds.SEPARATOR, kinds.IPL, kinds.EFI_VARIABLE_AUTHORITY, 0x12345678):
        assert facts_of(built, rewritten(built, index, kind=kind)).secure_boot is None


def test_a_ccel_log_tells_secure_boot_in_its_first_register():
    built = LogBuilder((Bank.SHA384,), header_pcr=1)
    built.add(1, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b"\x01"))

    assert facts_of(built, bank=Bank.SHA384).secure_boot is True


def test_nothing_is_believed_of_an_untrusted_pcr():
    built = a_boot()
    quoted = dict(built.pcrs[Bank.SHA256]) | {7: bytes(32)}

    facts = read_facts(judge_log(parse_log(built.bytes()), Bank.SHA256, quoted))

    assert facts.secure_boot is None
    assert facts.variables == ()
    assert facts.boot_loaders


def test_the_lists_of_secure_boot_are_read_entry_by_entry():
    dbx = facts_of(a_boot(dbx=5)).variable("dbx")

    entries = parse_signatures(dbx.value)

    assert [entry.kind for entry in entries] == [SignatureKind.IMAGE_DIGEST] * 5
    assert entries[0].data == hashlib.sha256(b"\0").digest()
    assert entries[0].owner == SECURITY


def test_an_authority_is_told_by_its_certificate():
    certificate = certificate_like(b"vendor")

    (authority,) = facts_of(a_boot(certificate=certificate)).authorities

    assert authority.certificate == certificate
    assert authority.fingerprint == hashlib.sha256(certificate).hexdigest()
    assert authority.variable == "db"
    assert not authority.before_separator


@pytest.mark.parametrize(("name", "vendor"), [("vendor_db", SECURITY), ("Shim", SHIM), ("MokList", SHIM)])
def test_quirk_21_authorities_of_shim_are_read_whatever_database_they_stand_in(name, vendor):
    certificate = certificate_like(b"distribution")
    built = a_boot().add(7, kinds.EFI_VARIABLE_AUTHORITY, variable(vendor, name, vendor.bytes_le + certificate))

    assert [each.variable for each in facts_of(built).authorities] == [name]


def test_quirk_21_a_vendor_guid_is_read_in_its_mixed_byte_order():
    assert parse_variable(variable(SECURITY, "db", b"")).vendor == UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")


def test_quirk_20_an_authority_of_an_old_shim_is_vouched_without_its_last_byte():
    certificate = certificate_like(b"old shim")
    data = variable(SHIM, "Shim", certificate, slack=b"\0\0\0\0\0\xaf")
    built = a_boot().add(7, kinds.EFI_VARIABLE_AUTHORITY, data, hashed=data[:-1])

    (authority,) = facts_of(built).authorities

    assert authority.certificate == certificate


def test_an_authority_that_is_a_digest_has_no_certificate():
    value = SECURITY.bytes_le + hashlib.sha256(b"image").digest()
    built = a_boot().add(7, kinds.EFI_VARIABLE_AUTHORITY, variable(SECURITY, "db", value))

    (authority,) = facts_of(built).authorities

    assert authority.certificate is None
    assert authority.fingerprint == hashlib.sha256(value).hexdigest()


def test_an_authority_with_rewritten_data_is_not_believed():
    built = a_boot(certificate=certificate_like(b"rogue"))
    index = index_of(built, certificate_like(b"rogue"))
    raw = rewritten(built, index, data=variable(SECURITY, "db", SECURITY.bytes_le + certificate_like(b"good")))

    assert [each.variable for each in facts_of(built, raw).authorities] == ["unknown"]


def test_an_authority_cannot_be_passed_off_as_configuration_after_the_separator():
    built = a_boot(certificate=certificate_like(b"rogue"))
    index = index_of(built, certificate_like(b"rogue"))

    facts = facts_of(built, rewritten(built, index, kind=kinds.EFI_VARIABLE_DRIVER_CONFIG))

    assert len(facts.authorities) == 1


def test_the_sbat_level_of_shim_is_read():
    built = a_boot().add(7, kinds.EFI_VARIABLE_AUTHORITY, variable(SHIM, "SbatLevel", b"sbat,1,2022052400\nshim,2\n\0"))

    facts = facts_of(built)

    assert facts.sbat_level == "sbat,1,2022052400\nshim,2"
    assert facts.authorities == ()


def test_shim_s_trusted_list_flag_is_a_variable_and_no_authority():
    built = a_boot().add(7, kinds.EFI_VARIABLE_AUTHORITY, variable(SHIM, "MokListTrusted", b"\x01"))

    facts = facts_of(built)

    assert facts.variable("MokListTrusted").value == b"\x01"
    assert facts.authorities == ()


def test_boot_loaders_are_told_by_their_authenticode_digest_and_source():
    (image,) = facts_of(a_boot(b"my uki")).boot_loaders

    assert image.digest == hashlib.sha256(b"my uki").digest()
    assert image.source == "EFI/BOOT/BOOTX64.EFI"
    assert image.role is ImageRole.BOOT_LOADER


@pytest.mark.parametrize("kind", [kinds.EFI_ACTION, kinds.SEPARATOR, kinds.IPL, kinds.COMPACT_HASH, 0x77777777, 0])
def test_a_boot_loader_with_a_rewritten_type_is_still_a_boot_loader(kind):
    built = a_boot(b"rogue")
    index = index_of(built, load_event("\\EFI\\BOOT\\BOOTX64.EFI"))

    facts = facts_of(built, rewritten(built, index, kind=kind))

    told = {image.digest for image in facts.boot_loaders}
    error = facts.separators.get(4) is SeparatorState.ERROR
    assert hashlib.sha256(b"rogue").digest() in told or error


@pytest.mark.parametrize("kind", [kinds.EFI_ACTION, kinds.SEPARATOR, kinds.EFI_VARIABLE_BOOT])
def test_a_boot_loader_with_its_own_bytes_as_data_and_a_rewritten_type_is_still_a_boot_loader(kind):
    loader = b"MZ" + bytes(200)
    built = a_boot(loader)
    index = index_of(built, load_event("\\EFI\\BOOT\\BOOTX64.EFI"))

    facts = facts_of(built, rewritten(built, index, kind=kind, data=loader))

    told = {image.digest for image in facts.boot_loaders}
    assert hashlib.sha256(loader).digest() in told or facts.separators.get(4) is not SeparatorState.NORMAL


@pytest.mark.parametrize("kind", [kinds.EFI_ACTION, kinds.IPL, kinds.EFI_VARIABLE_BOOT, 0x77777777])
def test_an_authority_with_a_rewritten_type_is_still_an_authority(kind):
    built = a_boot(certificate=certificate_like(b"rogue"))
    index = index_of(built, certificate_like(b"rogue"))

    (authority,) = facts_of(built, rewritten(built, index, kind=kind)).authorities

    assert authority.fingerprint == hashlib.sha256(certificate_like(b"rogue")).hexdigest()


@pytest.mark.parametrize("kind", [kinds.EFI_ACTION, kinds.IPL, kinds.EFI_VARIABLE_AUTHORITY])
def test_an_authority_with_rewritten_data_is_one_that_nobody_allows(kind):
    built = a_boot(certificate=certificate_like(b"rogue"))
    index = index_of(built, certificate_like(b"rogue"))

    (authority,) = facts_of(built, rewritten(built, index, kind=kind, data=b"harmless")).authorities

    assert (authority.variable, authority.certificate) == ("unknown", None)


def test_a_boot_loader_passed_off_as_no_action_makes_its_pcr_untrusted():
    built = a_boot(b"rogue")
    index = index_of(built, load_event("\\EFI\\BOOT\\BOOTX64.EFI"))
    raw = rewritten(built, index, kind=kinds.NO_ACTION)

    verdict = judge_log(parse_log(raw), Bank.SHA256, built.pcrs[Bank.SHA256])

    assert not verdict.trusts(4)


def test_a_boot_loader_moved_to_another_pcr_makes_both_untrusted():
    built = a_boot(b"rogue")
    index = index_of(built, load_event("\\EFI\\BOOT\\BOOTX64.EFI"))
    raw = rewritten(built, index, pcr=5)

    verdict = judge_log(parse_log(raw), Bank.SHA256, built.pcrs[Bank.SHA256])

    assert not verdict.trusts(4)
    assert not verdict.trusts(5)


def test_quirk_23_an_application_before_calling_and_several_attempts_are_all_told():
    built = LogBuilder().image(b"firmware tool").calling().separators().image(b"first").calling().image(b"second")

    facts = facts_of(built)

    assert facts.boot_attempts == 2
    assert [image.digest for image in facts.boot_loaders] == [
        hashlib.sha256(name).digest() for name in (b"firmware tool", b"first", b"second")
    ]


def test_a_calling_event_that_is_not_vouched_is_no_attempt_but_software():
    built = LogBuilder().add(4, kinds.EFI_ACTION, b"Calling EFI Application from Boot Option", hashed=b"rogue")

    facts = facts_of(built)

    assert facts.boot_attempts == 0
    assert [image.digest for image in facts.boot_loaders] == [hashlib.sha256(b"rogue").digest()]


def test_quirk_24_disabled_dma_protection_is_told():
    assert facts_of(a_boot().add(7, kinds.EFI_ACTION, b"DMA Protection Disabled")).dma_protection_disabled
    assert not facts_of(a_boot()).dma_protection_disabled
    assert not facts_of(
        a_boot().add(7, kinds.EFI_ACTION, b"DMA Protection Disabled", hashed=b"")
    ).dma_protection_disabled


def test_quirk_25_a_firmware_version_that_is_not_vouched_is_not_told():
    built = LogBuilder().add(0, kinds.S_CRTM_VERSION, "9.9\0".encode("utf-16-le"), hashed=b"something else")

    facts = facts_of(built)

    assert facts.firmware_version is None
    assert facts.opaque == (0,)


def test_the_firmware_version_is_told():
    assert facts_of(a_boot(firmware="U46 v2.10")).firmware_version == "U46 v2.10"


@pytest.mark.parametrize(
    ("payload", "state"),
    [
        (bytes(4), SeparatorState.NORMAL),
        (b"\xff" * 4, SeparatorState.NORMAL),
        (b"\x01\0\0\0", SeparatorState.ERROR),
        (b"\xff", SeparatorState.ODD),
    ],
)
def test_separators_are_told_by_what_they_measure(payload, state):
    assert facts_of(LogBuilder().separators(payload)).separators == dict.fromkeys(range(8), state)


def test_quirk_29_separators_of_windows_are_normal():
    built = LogBuilder()
    for pcr in (12, 13, 14):
        built.add(pcr, kinds.SEPARATOR, b"WBCL")

    assert facts_of(built).separators == dict.fromkeys((12, 13, 14), SeparatorState.NORMAL)


def test_an_error_separator_that_carries_an_explanation_is_an_error():
    built = LogBuilder().add(3, kinds.SEPARATOR, b"\x07\0\0\0", hashed=b"\x01\0\0\0")

    assert facts_of(built).separators == {3: SeparatorState.ERROR}


def test_a_boot_order_with_the_bytes_of_an_error_is_no_error():
    order = variable(GLOBAL, "BootOrder", b"\x01\0\0\0")
    built = LogBuilder().separators().add(1, kinds.EFI_VARIABLE_BOOT, order, hashed=b"\x01\0\0\0")

    assert facts_of(built).separators[1] is SeparatorState.NORMAL


def test_an_error_separator_stays_an_error_whatever_follows():
    built = LogBuilder().add(3, kinds.SEPARATOR, b"\x01\0\0\0").add(3, kinds.SEPARATOR, bytes(4))

    assert facts_of(built).separators == {3: SeparatorState.ERROR}


def test_grub_s_kernel_command_line_is_vouched_behind_its_prefix():
    built = LogBuilder().add(8, kinds.IPL, b"kernel_cmdline: /vmlinuz ro quiet\0", hashed=b"/vmlinuz ro quiet")

    (line,) = facts_of(built).command_lines

    assert (line.pcr, line.source, line.text) == (8, LineSource.GRUB, "/vmlinuz ro quiet")


def test_a_rewritten_command_line_has_no_text():
    built = LogBuilder().add(8, kinds.IPL, b"kernel_cmdline: quiet\0", hashed=b"init=/bin/sh")

    (line,) = facts_of(built).command_lines

    assert line.text is None
    assert line.digest == hashlib.sha256(b"init=/bin/sh").digest()


def test_files_that_grub_reads_are_told_by_their_digest():
    built = LogBuilder().add(9, kinds.IPL, b"/boot/vmlinuz\0", hashed=b"a kernel")

    (image,) = facts_of(built).images

    assert (image.role, image.digest, image.source) == (
        ImageRole.FILE,
        hashlib.sha256(b"a kernel").digest(),
        "/boot/vmlinuz",
    )


def test_a_command_line_given_to_systemd_stub_is_told():
    data = "console=ttyS0\0".encode("utf-16-le")

    (line,) = facts_of(LogBuilder().add(12, kinds.IPL, data)).command_lines

    assert (line.source, line.text) == (LineSource.SYSTEMD_STUB, "console=ttyS0")


def test_load_options_that_linux_measured_are_known_by_digest_only():
    data = struct.pack("<II", 0x8F3B22ED, 26) + b"LOADED_IMAGE::LoadOptions\0"

    (line,) = facts_of(LogBuilder().add(9, kinds.EVENT_TAG, data, hashed=b"options")).command_lines

    assert (line.source, line.text) == (LineSource.LINUX_STUB, None)


def test_sections_of_a_uki_are_told_by_name_and_digest():
    sections = facts_of(a_boot()).uki_sections

    assert [(section.name, section.digest) for section in sections] == [
        (".linux", hashlib.sha256(b"kernel").digest()),
        (".initrd", hashlib.sha256(b"initrd").digest()),
        (".cmdline", hashlib.sha256(b"quiet").digest()),
    ]


def test_a_section_s_name_is_read_from_its_digest_and_not_from_the_log_s_text():
    shown = ".linux".encode("utf-16-le")
    built = LogBuilder().add(11, kinds.IPL, shown, hashed=b".sbat\0").add(11, kinds.IPL, shown, hashed=b"content")

    assert [section.name for section in facts_of(built).uki_sections] == [".sbat"]


def test_a_payload_that_merely_ends_like_the_hashed_text_is_not_vouched():
    digest = hashlib.sha256(b"quiet").digest()

    assert covered(kinds.IPL, b"kernel_cmdline: quiet", digest, Bank.SHA256).extent is Extent.AFTER_PREFIX
    assert covered(kinds.IPL, b"anything: quiet", digest, Bank.SHA256) is None
    assert covered(kinds.EFI_ACTION, b"kernel_cmdline: quiet", digest, Bank.SHA256) is None


def test_only_an_authority_may_lack_its_last_byte():
    data = b"some event"
    digest = hashlib.sha256(data[:-1]).digest()

    assert covered(kinds.EFI_VARIABLE_AUTHORITY, data, digest, Bank.SHA256).payload == data[:-1]
    assert covered(kinds.EFI_VARIABLE_DRIVER_CONFIG, data, digest, Bank.SHA256) is None


def test_a_boot_variable_may_be_measured_by_its_value_alone():
    data = variable(GLOBAL, "Boot0001", b"\x01\0")

    assert (
        covered(kinds.EFI_VARIABLE_BOOT, data, hashlib.sha256(b"\x01\0").digest(), Bank.SHA256).extent is Extent.VALUE
    )
    assert covered(kinds.EFI_VARIABLE_DRIVER_CONFIG, data, hashlib.sha256(b"\x01\0").digest(), Bank.SHA256) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(31),
        GLOBAL.bytes_le + struct.pack("<QQ", 1 << 63, 0),
        GLOBAL.bytes_le + struct.pack("<QQ", 0, 1 << 63),
        GLOBAL.bytes_le + struct.pack("<QQ", 3, 0) + b"ab",
        GLOBAL.bytes_le + struct.pack("<QQ", 1, 2) + b"ab",
        GLOBAL.bytes_le + struct.pack("<QQ", 1, 0) + b"\x00\xd8",
        variable(GLOBAL, "x", b"y", slack=bytes(9)),
    ],
)
def test_a_variable_that_contradicts_its_lengths_is_refused(data):
    with pytest.raises(MalformedStructure):
        parse_variable(data)


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        X509.bytes_le + struct.pack("<III", 27, 0, 17),
        X509.bytes_le + struct.pack("<III", 1000, 0, 17) + bytes(17),
        X509.bytes_le + struct.pack("<III", 28 + 17, 0, 0) + bytes(17),
        X509.bytes_le + struct.pack("<III", 28 + 17, 0, 16) + bytes(17),
        X509.bytes_le + struct.pack("<III", 28 + 17, 0, 18) + bytes(17),
        X509.bytes_le + struct.pack("<III", 28 + 17, 0xFFFFFFF0, 17) + bytes(17),
    ],
)
def test_a_signature_list_that_contradicts_its_sizes_is_refused(value):
    with pytest.raises(MalformedStructure):
        parse_signatures(value)


def test_several_signature_lists_are_read_one_after_the_other():
    value = signature_list(X509, [b"cert"]) + signature_list(SHA256_LIST, [bytes(32), bytes(32)])

    assert len(parse_signatures(value)) == 3
    assert parse_signatures(b"") == ()


@pytest.mark.parametrize("length", [599, 601])
def test_a_certificate_whose_length_lies_is_no_certificate(length):
    certificate = b"\x30\x82" + length.to_bytes(2) + bytes(600)

    assert authority_of(parse_variable(variable(SECURITY, "db", SECURITY.bytes_le + certificate))) is None


def test_a_device_path_never_reads_beyond_its_event():
    data = struct.pack("<QQQQ", 0, 0, 0, 1 << 60) + struct.pack("<BBH", 4, 4, 60000) + b"short"

    assert image_source(data) is None
    assert image_source(b"") is None
    assert image_source(load_event("\\a\\b.efi")) == "a/b.efi"


def test_firmware_s_text_is_made_fit_to_show():
    assert firmware_text("1.2\0\0junk".encode("utf-16-le")) == "1.2"
    assert firmware_text(b"R70\0junk") == "R70"
    assert firmware_text(GLOBAL.bytes_le) == str(GLOBAL)
    assert one_line("a\x1b[31m\nb") == "a [31m b"
    assert len(one_line("x" * 9000)) == 400


def test_a_view_tells_the_entries_of_a_list():
    data = variable(SECURITY, "dbx", signature_list(SHA256_LIST, [bytes(32), b"\1" * 32]))
    log = parse_log(LogBuilder().add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, data).bytes())
    event = log.events[0]

    view = view_event(event, data, event.digests[1], Bank.SHA256)

    assert (view.label, view.detail, view.vouched, len(view.entries)) == ("variable dbx", "2 entries", True, 2)


def test_a_view_without_a_digest_is_not_vouched():
    log = parse_log(a_boot().bytes())

    assert not view_event(log.events[0], log.data(log.events[0]), None, Bank.SHA256).vouched


def test_every_event_of_a_boot_has_a_name():
    built = a_boot(certificate=certificate_like(b"x"))
    log = parse_log(built.bytes())

    for event in assume_log(log, Bank.SHA256).events:
        view = view_event(event, log.data(event), event.digests[1], Bank.SHA256)
        assert view.label
        assert view.kind.startswith("EV_")
