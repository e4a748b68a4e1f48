"""JSON Schema of `classes.json`, published by `fleetd classes schema`."""

from typing import Any

DEADLINES: dict[str, str] = {
    "power": "until a power command shows its effect",
    "netboot": "from power-on to the first contact, with a BMC",
    "netboot_by_hand": "the same, where a person presses the button",
    "attest": "from first contact to a verdict",
    "approval": "for a person to decide about an unknown endorsement key",
    "intent_approval": "for a second person to approve the intent",
    "budget": "for the availability budget to have room",
    "stall": "without progress of an erase or a write",
    "action": "for every other action",
    "hand_over": "from the last action to the reboot",
    "configure": "from the reboot to the redemption of the seed",
}
"""Every deadline a class may set, in seconds, and what it bounds."""

_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": 31 * 86400}
_NAME = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PCRS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 23}, "uniqueItems": True}
_AMOUNT = {
    "oneOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^(100|[0-9]{1,2})%$"},
    ]
}
_SHORT = {"type": "string", "maxLength": 500}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_APPROVAL = _object(
    [],
    two_person={"type": "boolean", "description": "Whether everything that erases waits for a second person."},
)
_BUDGET = {
    **_object(
        [],
        max_unavailable={
            **_AMOUNT,
            "description": "How many active machines may be out of service: a number, or a part as `10%`.",
        },
        min_available={**_AMOUNT, "description": "The other way round; one of the two."},
    ),
    "minProperties": 1,
    "maxProperties": 1,
}


_ALLOW = {
    "type": "array",
    "description": "Alternatives: every boot-loader and kernel event must match one of them.",
    "items": {
        "type": "object",
        "properties": {
            "event": {
                "enum": ["boot-loader", "kernel", "command-line", "initrd"],
                "description": "Only events of this kind; all when absent.",
            },
            "authority": {**_SHA256, "description": "SHA-256 of the certificate that signed the image."},
            "digest": {
                "type": "string",
                "pattern": "^([0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{40})$",
                "description": "Of the image, as the event log names it.",
            },
            "note": {**_SHORT, "description": "What this entry is, for you."},
        },
        "additionalProperties": False,
        "oneOf": [{"required": ["authority"]}, {"required": ["digest"]}],
    },
}

_ATTESTATION = _object(
    ["install"],
    pcrs=_object(
        ["bank", "select"],
        bank={"enum": ["sha256", "sha384", "sha512"], "description": "The PCR bank that is quoted."},
        select={**_PCRS, "minItems": 1, "description": "The PCRs that are quoted."},
    ),
    install=_object(
        ["boot"],
        boot={
            "enum": ["judged", "network-trusted"],
            "description": "judged: the event log must show an allowed HookOS; network-trusted: the network decides what boots.",
        },
        secure_boot={"enum": ["required", "optional"], "description": "Of HookOS."},
        allow=_ALLOW,
    ),
    check=_object(
        [],
        baseline={**_PCRS, "description": "PCRs whose change an owner must accept."},
        report_only={**_PCRS, "description": "PCRs whose change is only shown."},
        secure_boot={"enum": ["required", "optional"], "description": "Of the installed system."},
        allow=_ALLOW,
    ),
    ek_certificate={
        "enum": ["required", "optional"],
        "description": "Whether a manufacturer must vouch for the endorsement key.",
    },
    manufacturers={
        "type": "array",
        "items": {"type": "string", "pattern": "^[A-Z0-9 ]{1,4}$"},
        "uniqueItems": True,
        "description": "TPM manufacturer codes that are admitted; all where absent.",
    },
    allow_roca={"type": "boolean", "description": "Admit RSA keys with the ROCA fingerprint."},
    allow_secrets_in_network_trusted={
        "type": "boolean",
        "description": "Deliver seeds and tickets although what booted was not judged.",
    },
    tpm={"const": "2.0", "description": "There is no other: a class for TPM 1.2 is not installable."},
    sha1_bank={"const": "ignore", "description": "SHA-1 PCRs prove nothing."},
)

_SECRET_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"}

_CLASS: dict[str, Any] = _object(
    ["name", "family"],
    name={**_NAME, "description": "The slug under which NetBox refers to the class."},
    description={**_SHORT, "description": "What the class is for."},
    family={
        "enum": ["talos", "nixos-image", "alpine-image", "cloud-init-nocloud"],
        "description": "How the operating system is delivered.",
    },
    installable={
        "type": "boolean",
        "description": "Whether machines may be provisioned with it; NetBox refuses others with the reason.",
    },
    reason={**_SHORT, "description": "Why it is not installable; required then."},
    role={**_SHORT, "description": "The device role that machines of the class have in NetBox."},
    architecture={"enum": ["amd64", "arm64"], "description": "Of the machines."},
    image=_object(
        ["url", "sha256", "size"],
        url={
            "type": "string",
            "pattern": "^https?://[^\\s]+$",
            "maxLength": 2000,
            "description": "Where machines fetch the disk image.",
        },
        sha256={**_SHA256, "description": "Of the raw bytes, after decompression."},
        size={"type": "integer", "minimum": 512, "description": "Of the raw bytes."},
        sector_size={"enum": [512, 4096], "description": "That the image is made for."},
        compression={"enum": ["none", "zstd", "gzip", "xz"], "description": "Of the file at the address."},
        signature_key={
            "type": "string",
            "pattern": "^[A-Za-z0-9+/]{43}=$",
            "description": "Ed25519 public key, base64, of the signature at the image's address with `.sig`.",
        },
    ),
    disk=_object(
        [],
        min_size={"type": "integer", "minimum": 0, "description": "Bytes that the declared disk must have."},
        erase={"enum": ["quick", "deep"], "description": "How the declared disk is erased."},
        fallback={
            "type": "array",
            "items": {"enum": ["sanitize", "format", "secure-erase", "discard", "overwrite"]},
            "description": "Methods that may be tried when the first is not supported or leaves data.",
        },
    ),
    attestation=_ATTESTATION,
    certificates=_object(
        [],
        lifetime={
            **_SECONDS,
            "maximum": 10 * 366 * 86400,
            "description": "Of device certificates, in seconds; 365 days where absent.",
        },
    ),
    seed=_object(
        [],
        template={**_SECRET_NAME, "description": "Template of the seed: a file, or a folder for cloud-init-nocloud."},
        secrets={
            "type": "array",
            "items": _SECRET_NAME,
            "uniqueItems": True,
            "description": "Files of the secrets directory, each 0600, that the seed holds.",
        },
        values={"type": "object", "description": "Values of your own for the template; never secrets."},
        profile={
            "type": "string",
            "maxLength": 200,
            "description": "Name that the installed system picks its role by; the class where absent.",
        },
        endpoints={
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 2000},
            "description": "Further addresses by name, as of SPIRE.",
        },
        devid_folder={
            "type": "string",
            "pattern": "^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$",
            "maxLength": 200,
            "description": "Where the node keeps the LDevID (certificate, key blobs) for SPIRE's tpm_devid or a VPN.",
        },
    ),
    approval=_APPROVAL,
    budget=_BUDGET,
    boot=_object(
        [],
        uefi={"const": True, "description": "Legacy boot is not supported."},
        secure_boot={"type": "boolean", "description": "Whether machines boot with Secure Boot."},
        bmc={"enum": ["required", "optional"], "description": "Whether a machine without a BMC is refused."},
        quirks=_object(
            [],
            off_before_boot_device={
                "type": "boolean",
                "description": "The BMC takes a boot device only while the machine is off.",
            },
            boot_device_lost_on_reset={
                "type": "boolean",
                "description": "A reset on the way forgets the boot device; a silent machine is started once more.",
            },
            report_delay={
                "type": "number",
                "minimum": 0,
                "maximum": 600,
                "description": "Seconds for which the BMC goes on telling the power state before.",
            },
        ),
    ),
    keep_on_failure={"type": "boolean", "description": "Whether a failed machine stays on for a look at it."},
    deadlines=_object([], **{name: {**_SECONDS, "description": text} for name, text in DEADLINES.items()}),
)

CLASSES_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Machine classes of fleetd",
    **_object(
        ["classes"],
        version={"const": 1},
        classes={"type": "array", "items": _CLASS},
        tags={
            "description": "Rules for all machines with a NetBox tag, by its slug; they come on top of their classes'.",
            "type": "object",
            "additionalProperties": _object([], budget=_BUDGET, approval=_APPROVAL),
        },
    ),
}
