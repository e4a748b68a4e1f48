"""What NVMe controllers and ATA drives are sent, byte by byte, and how their answers are read; no such disk is needed."""

import struct
from dataclasses import dataclass, field

import pytest

from fleet_machine.disk import ata, nvme
from fleet_machine.disk.commands import NvmeCommand, SgAnswer
from fleet_machine.disk.methods import EraseFailedError, NotSupportedError
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.source import Disk, OpenedDisk

OPENED = OpenedDisk(Disk("nvme0n1", "S", "", "", 1 << 30, 512, None), 7)


class Clock:
    def __init__(self):
        self.now = 0.0

    def boot(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def pace(clock, told):
    return Pace(clock, lambda percent, sentence: told.append((percent, sentence)))


def at_once(blocking, _pace, _sentence):
    blocking()


# --- NVMe ---


@dataclass
class Controller:
    """An NVMe controller: capabilities, and the sanitize log that it shows one after the other."""

    sanicap: int = 0x2
    fna: int = 0x0
    log: list = field(default_factory=lambda: [(0, 0), (0, 2), (32768, 2), (65535, 1)])
    sent: list = field(default_factory=list)

    def nvme_admin(self, _fd, command):
        self.sent.append(command)
        data = bytearray(command.read)
        if command.opcode == nvme.IDENTIFY and command.cdw10 == 1:
            struct.pack_into("<I", data, 328, self.sanicap)
            data[524] = self.fna
        elif command.opcode == nvme.IDENTIFY:
            data[26] = 0x13
        elif command.opcode == nvme.GET_LOG:
            struct.pack_into("<HH", data, 0, *(self.log.pop(0) if len(self.log) > 1 else self.log[0]))
        return 0, bytes(data)

    def nvme_namespace(self, _fd):
        return 5

    def opcodes(self, opcode):
        return [command for command in self.sent if command.opcode == opcode]


def test_the_passthrough_structure_has_the_kernels_layout():
    packed = NvmeCommand(0x80, nsid=5, cdw10=0x203, cdw11=9, read=4096, timeout_ms=77).packed(0x1122334455667788)

    assert len(packed) == 72
    assert packed[0] == 0x80
    assert struct.unpack_from("<I", packed, 4) == (5,)
    assert struct.unpack_from("<Q", packed, 24) == (0x1122334455667788,)
    assert struct.unpack_from("<I", packed, 36) == (4096,)
    assert struct.unpack_from("<II", packed, 40) == (0x203, 9)
    assert struct.unpack_from("<I", packed, 64) == (77,)


@pytest.mark.parametrize(
    ("sanicap", "cdw10", "random_looking"), [(0x7, 2, False), (0x1, 4, True), (0x4, 0x13, False), (0x5, 4, True)]
)
def test_a_sanitize_uses_the_strongest_action_of_the_controller(clock, pace, sanicap, cdw10, random_looking):
    controller = Controller(sanicap=sanicap)

    assert nvme.sanitize(OPENED, controller, clock, pace) is random_looking
    assert [command.cdw10 for command in controller.opcodes(nvme.SANITIZE)] == [cdw10]


def test_a_sanitize_is_followed_to_its_end_with_progress(clock, pace, told):
    nvme.sanitize(OPENED, Controller(), clock, pace)

    assert [percent for percent, _sentence in told] == [0.0, 50.0]


def test_a_sanitize_that_runs_already_is_waited_for_and_not_started_again(clock, pace):
    controller = Controller(log=[(100, 2), (200, 2), (65535, 1)])

    nvme.sanitize(OPENED, controller, clock, pace)

    assert controller.opcodes(nvme.SANITIZE) == []


def test_a_sanitize_that_failed_before_is_left_first(clock, pace):
    controller = Controller(log=[(0, 3), (0, 2), (65535, 1)])

    nvme.sanitize(OPENED, controller, clock, pace)

    assert [command.cdw10 for command in controller.opcodes(nvme.SANITIZE)] == [1, 2]


def test_a_sanitize_that_ends_in_failure_is_a_failure(clock, pace):
    with pytest.raises(EraseFailedError, match="failed"):
        nvme.sanitize(OPENED, Controller(log=[(0, 0), (100, 2), (100, 3)]), clock, pace)


def test_a_sanitize_without_progress_is_reported_as_standing_still(clock, pace):
    with pytest.raises(EraseFailedError, match="stands still at 50 percent"):
        nvme.sanitize(OPENED, Controller(log=[(0, 0), (32768, 2)]), clock, pace)
    assert clock.now >= nvme.STALLED_AFTER


def test_a_controller_without_sanitize_says_so(clock, pace):
    with pytest.raises(NotSupportedError):
        nvme.sanitize(OPENED, Controller(sanicap=0), clock, pace)


@pytest.mark.parametrize(("fna", "ses"), [(0x0, 1), (0x4, 2)])
def test_a_format_keeps_the_lba_format_and_erases(pace, fna, ses):
    controller = Controller(fna=fna)

    assert nvme.format_namespace(OPENED, controller, pace, at_once) is (ses == 2)
    (command,) = controller.opcodes(nvme.FORMAT)
    assert (command.nsid, command.cdw10) == (5, 0x3 | ses << 9)


# --- ATA ---


class Drive:
    """An ATA drive with the security feature set, as far as an erase needs it."""

    def __init__(
        self, *, supported=True, enabled=False, locked=False, frozen=False, enhanced=True, password=b"", erases=True
    ):
        self.supported, self.enabled, self.locked, self.frozen = supported, enabled, locked, frozen
        self.enhanced, self.password, self.erases = enhanced, password, erases
        self.prepared = self.erased = False
        self.commands = []

    def scsi(self, _fd, cdb, *, read, write, timeout):
        assert cdb[0] == 0x85
        assert len(cdb) == 16
        command = cdb[14]
        self.commands.append((command, cdb[1] >> 1, timeout))
        good, data = self.act(command, write)
        status = 0x50 if good else 0x51
        sense = bytes([0x72, 0x01, 0, 0x1D, 0, 0, 0, 14, 0x09, 12, *[0] * 11, status]).ljust(64, b"\0")
        return SgAnswer(2, sense, data[:read])

    def act(self, command, data):
        if command == ata.IDENTIFY:
            words = [0] * 256
            words[128] = self.supported | self.enabled << 1 | self.locked << 2 | self.frozen << 3 | self.enhanced << 5
            words[89], words[90] = 30, 0x8000 | 600
            return True, struct.pack("<256H", *words)
        password = data[2:34]
        if command == ata.SET_PASSWORD:
            if self.locked or self.frozen:
                return False, b""
            self.enabled, self.password = True, password
        elif command == ata.UNLOCK:
            if password != self.password:
                return False, b""
            self.locked = False
        elif command == ata.ERASE_PREPARE:
            self.prepared = True
        elif command == ata.ERASE_UNIT:
            if not self.prepared or password != self.password:
                return False, b""
            self.mode = struct.unpack("<H", data[:2])[0]
            self.erased = self.erases
            self.enabled = not self.erases
        elif command == ata.DISABLE:
            self.enabled = False
        return True, b""

    def sequence(self):
        return [command for command, _protocol, _timeout in self.commands]


def test_a_drive_is_erased_by_set_password_prepare_erase(pace):
    drive = Drive()

    assert ata.secure_erase(OPENED, drive, pace, at_once) is True
    assert drive.erased
    assert drive.mode == 0x2
    assert drive.sequence() == [0xEC, 0xF1, 0xF3, 0xF4, 0xEC]


def test_each_command_travels_with_its_own_protocol(pace):
    drive = Drive()
    ata.secure_erase(OPENED, drive, pace, at_once)

    protocols = {command: protocol for command, protocol, _timeout in drive.commands}
    assert protocols == {0xEC: 4, 0xF1: 5, 0xF3: 3, 0xF4: 5}


def test_the_erase_may_take_twice_as_long_as_the_drive_says(pace):
    drive = Drive()
    ata.secure_erase(OPENED, drive, pace, at_once)

    assert next(timeout for command, _p, timeout in drive.commands if command == ata.ERASE_UNIT) == 600 * 2 * 60 * 2


def test_a_drive_without_enhanced_erase_gets_the_normal_one(pace):
    drive = Drive(enhanced=False)

    assert ata.secure_erase(OPENED, drive, pace, at_once) is False
    assert drive.mode == 0


def test_a_frozen_drive_is_not_touched_and_the_owner_is_told_what_to_do(pace):
    drive = Drive(frozen=True)

    with pytest.raises(NotSupportedError, match="switch the machine off and on"):
        ata.secure_erase(OPENED, drive, pace, at_once)
    assert drive.sequence() == [0xEC]


def test_a_drive_without_security_is_not_touched(pace):
    with pytest.raises(NotSupportedError):
        ata.secure_erase(OPENED, Drive(supported=False), pace, at_once)


def test_an_erase_that_a_power_cut_ended_is_unlocked_and_repeated(pace):
    drive = Drive(enabled=True, locked=True, password=ata.PASSWORD)

    ata.secure_erase(OPENED, drive, pace, at_once)

    assert drive.erased
    assert not drive.enabled
    assert ata.UNLOCK in drive.sequence()


def test_a_drive_locked_by_somebody_else_is_refused(pace):
    with pytest.raises(EraseFailedError, match="locked with a password"):
        ata.secure_erase(OPENED, Drive(enabled=True, locked=True, password=b"x" * 32), pace, at_once)


def test_an_erase_that_leaves_the_password_set_is_a_failure_and_the_drive_is_unlocked(pace):
    drive = Drive(erases=False)

    with pytest.raises(EraseFailedError, match="not completed"):
        ata.secure_erase(OPENED, drive, pace, at_once)
    assert not drive.enabled


def test_an_error_without_ata_sense_is_an_error_too():
    class Bridge:
        def scsi(self, *_args, **_kwargs):
            return SgAnswer(2, bytes(64), b"")

    with pytest.raises(OSError, match="refuses command 0xec"):
        ata._identify(Bridge(), 7)
