"""Event types of the TCG PC Client Platform Firmware Profile 1.06, section 10.4.1, and what each is called."""

from typing import Final

PREBOOT_CERT: Final = 0x00
POST_CODE: Final = 0x01
NO_ACTION: Final = 0x03
SEPARATOR: Final = 0x04
ACTION: Final = 0x05
EVENT_TAG: Final = 0x06
S_CRTM_CONTENTS: Final = 0x07
S_CRTM_VERSION: Final = 0x08
CPU_MICROCODE: Final = 0x09
PLATFORM_CONFIG_FLAGS: Final = 0x0A
TABLE_OF_DEVICES: Final = 0x0B
COMPACT_HASH: Final = 0x0C
IPL: Final = 0x0D
IPL_PARTITION_DATA: Final = 0x0E
NONHOST_CODE: Final = 0x0F
NONHOST_CONFIG: Final = 0x10
NONHOST_INFO: Final = 0x11
OMIT_BOOT_DEVICE_EVENTS: Final = 0x12
POST_CODE2: Final = 0x13

EFI_VARIABLE_DRIVER_CONFIG: Final = 0x80000001
EFI_VARIABLE_BOOT: Final = 0x80000002
EFI_BOOT_SERVICES_APPLICATION: Final = 0x80000003
EFI_BOOT_SERVICES_DRIVER: Final = 0x80000004
EFI_RUNTIME_SERVICES_DRIVER: Final = 0x80000005
EFI_GPT_EVENT: Final = 0x80000006
EFI_ACTION: Final = 0x80000007
EFI_PLATFORM_FIRMWARE_BLOB: Final = 0x80000008
EFI_HANDOFF_TABLES: Final = 0x80000009
EFI_PLATFORM_FIRMWARE_BLOB2: Final = 0x8000000A
EFI_HANDOFF_TABLES2: Final = 0x8000000B
EFI_VARIABLE_BOOT2: Final = 0x8000000C
EFI_GPT_EVENT2: Final = 0x8000000D
EFI_HCRTM_EVENT: Final = 0x80000010
EFI_VARIABLE_AUTHORITY: Final = 0x800000E0
EFI_SPDM_FIRMWARE_BLOB: Final = 0x800000E1
EFI_SPDM_FIRMWARE_CONFIG: Final = 0x800000E2
EFI_SPDM_DEVICE_POLICY: Final = 0x800000E3
EFI_SPDM_DEVICE_AUTHORITY: Final = 0x800000E4

NAMES: Final = {value: f"EV_{name}" for name, value in globals().items() if name.isupper() and isinstance(value, int)}

VARIABLES: Final = frozenset(
    {
        EFI_VARIABLE_DRIVER_CONFIG,
        EFI_VARIABLE_BOOT,
        EFI_VARIABLE_BOOT2,
        EFI_VARIABLE_AUTHORITY,
        EFI_SPDM_DEVICE_POLICY,
        EFI_SPDM_DEVICE_AUTHORITY,
    },
)
"""Types whose data is a UEFI_VARIABLE_DATA."""

IMAGES: Final = frozenset({EFI_BOOT_SERVICES_APPLICATION, EFI_BOOT_SERVICES_DRIVER, EFI_RUNTIME_SERVICES_DRIVER})
"""Types whose digest is the Authenticode digest of an image, and whose data only says where it came from."""


def name_of(kind: int) -> str:
    """Return the type's name, `EV_...`, or its number in hexadecimal."""
    return NAMES.get(kind) or f"0x{kind:08x}"
