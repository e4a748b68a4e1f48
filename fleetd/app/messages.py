"""The bodies of the machine API (docs/reference/machine-api.md), as they come in."""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

MAX_LOG = 512 * 1024


@dataclass(frozen=True, slots=True)
class Base64:
    """Bytes as standard padded base64, in the one spelling that encodes them; `limit` is of the decoded bytes."""

    limit: int

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate text into bytes."""
        return core_schema.no_info_plain_validator_function(
            self._decode,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda raw: b64encode(raw).decode()),
        )

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe it in OpenAPI."""
        return {"type": "string", "contentEncoding": "base64", "maxLength": self.limit * 4 // 3 + 4}

    def _decode(self, value: object) -> bytes:
        if not isinstance(value, str) or len(value) > self.limit * 4 // 3 + 4:
            raise ValueError(f"must be standard padded base64 of at most {self.limit} bytes")
        try:
            raw = b64decode(value, validate=True)
        except ValueError:
            raise ValueError("must be standard padded base64") from None
        if len(raw) > self.limit or b64encode(raw).decode() != value:
            raise ValueError(f"must be standard padded base64 of at most {self.limit} bytes")
        return raw


Public = Annotated[bytes, Base64(1024)]
Certificate = Annotated[bytes, Base64(8192)]
Log = Annotated[bytes, Base64(MAX_LOG)]
Document = Annotated[bytes, Base64(64 * 1024)]
Small = Annotated[bytes, Base64(2048)]
Version = Literal[1]
Token = Annotated[str, Field(min_length=16, max_length=8192, pattern="^[A-Za-z0-9_-]+$")]
Serial = Annotated[str, Field(max_length=64, pattern="^[0-9a-f]+$")]
Thumbprint = Annotated[str, Field(pattern="^[A-Za-z0-9_-]{43}$")]
"""RFC 7638 with SHA-256, base64url."""
Digest = Annotated[str, Field(pattern="^([0-9a-f]{2}){20,64}$")]
Pcrs = Annotated[
    dict[
        Annotated[str, Field(max_length=10, pattern="^[a-z0-9_]+$")],
        Annotated[dict[Annotated[str, Field(pattern="^([0-9]|1[0-9]|2[0-3])$")], Digest], Field(max_length=24)],
    ],
    Field(min_length=1, max_length=8),
]
MachineNumber = Annotated[int, Field(ge=1, le=2**53)]


class Message(BaseModel):
    """A body: unknown fields are ignored, another version is refused."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=False)


class EndorsementKey(Message):
    """An EK as the machine offers it."""

    public: Public
    certificate: Certificate | None = None
    chain: Annotated[list[Certificate], Field(max_length=8)] = []


Keys = Annotated[list[EndorsementKey], Field(min_length=1, max_length=6)]


class EnrollAsk(Message):
    """Asks for the `unique` of the LAK first, then, with the LAK, for the challenge."""

    version: Version
    purpose: Literal["enroll"]
    eks: Keys
    lak: Public | None = None


class CheckAsk(Message):
    """Asks for a challenge of a boot check."""

    version: Version
    purpose: Literal["check"]
    machine: MachineNumber


class RedeemAsk(Message):
    """Asks for a challenge of a redemption."""

    version: Version
    purpose: Literal["redeem"]
    machine: MachineNumber
    run: UUID


ChallengeAsk = Annotated[EnrollAsk | CheckAsk | RedeemAsk, Field(discriminator="purpose")]


class Attested(Message):
    """A TPMS_ATTEST and its TPMT_SIGNATURE."""

    attest: Small
    signature: Small


class KeyBlobs(Message):
    """The LDevID: TPMT_PUBLIC, and TPM2B_PRIVATE without its size prefix."""

    public: Public
    private: Small


class Enroll(Message):
    """An enrollment."""

    version: Version
    token: Token
    activation: Small
    eks: Keys
    lak: Public
    ldevid: KeyBlobs
    quote: Attested
    certify: Attested
    pcrs: Pcrs
    facts: Document
    log: Log | None = None


class Leave(Message):
    """Asks to erase or write now."""

    action: Annotated[str, Field(pattern="^[a-z-]{1,40}$")]
    disk_serial: Annotated[str, Field(max_length=200)]


class Event(Message):
    """What an action tells."""

    seq: Annotated[int, Field(ge=0, le=2**62)]
    action: Annotated[str, Field(pattern="^[a-z-]{1,40}$")]
    kind: Literal["started", "progress", "evidence", "failed", "finished"]
    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    message: Annotated[str, Field(max_length=4000)] = ""
    data: dict[str, Any] | None = None


class Empty(Message):
    """Nothing is asked but what the path says."""


class Redeem(Message):
    """Redeems a seed from the installed system."""

    version: Version
    token: Token
    ticket: Annotated[str, Field(min_length=16, max_length=200)]
    quote: Attested
    pcrs: Pcrs
    facts: Document
    log: Log | None = None


class Check(Message):
    """A boot check."""

    version: Version
    token: Token
    machine: MachineNumber
    quote: Attested
    pcrs: Pcrs
    certificates: Annotated[list[Serial], Field(max_length=16)] = []
    findings: Document | None = None
    log: Log | None = None
    keys: Annotated[list[Thumbprint], Field(max_length=8)] | None = None
