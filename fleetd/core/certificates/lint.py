"""What a device certificate must look like, checked on the request before signing and on the result after."""

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleetd.core.certificates.profile import AK_USAGE, NAME_OCTETS, DeviceRequest, Kind, key_allowed


def lint_request(request: DeviceRequest, issuer: x509.Certificate) -> tuple[str, ...]:
    """Return what is wrong with a request before anything is signed."""
    problems = []
    if not key_allowed(request.key):
        problems.append("the key is neither P-256, P-384 nor RSA of 2048 bits or more")
    if request.kind is Kind.LDEVID and not request.node_name:
        problems.append("an LDevID needs the node's name")
    if len(request.node_name.encode(errors="replace")) > NAME_OCTETS:
        problems.append(f"the node's name is longer than the {NAME_OCTETS} octets of a common name")
    if not (request.node_name.isprintable() and request.device_serial.isprintable()):
        problems.append("the node's name or the device's serial holds a control character")
    if request.serial.bit_length() > 159 or request.serial <= 0:
        problems.append("the serial number is not positive or longer than 20 bytes")
    if request.not_after <= request.not_before:
        problems.append("it would never be in force")
    if not issuer.not_valid_before_utc <= request.not_before <= issuer.not_valid_after_utc:
        problems.append(
            f"the issuing CA is in force from {issuer.not_valid_before_utc} to {issuer.not_valid_after_utc} only"
        )
    if not request.tpm.manufacturer:
        problems.append("the TPM's manufacturer is unknown")
    if not request.crl_url:
        problems.append("no place of the revocation list is configured")
    return tuple(problems)


def compare_result(request: DeviceRequest, issuer: x509.Certificate, made: x509.Certificate) -> tuple[str, ...]:
    """Return where a signed certificate differs from what was asked, and whether its signature verifies."""
    problems = []
    if made.serial_number != request.serial:
        problems.append("serial number")
    if made.public_key() != request.key:
        problems.append("key")
    if made.issuer != issuer.subject:
        problems.append("issuer")
    if made.not_valid_before_utc != request.not_before.replace(microsecond=0):
        problems.append("notBefore")
    if made.not_valid_after_utc > min(request.not_after, issuer.not_valid_after_utc):
        problems.append("notAfter beyond the issuer's or the request's")
    extensions = made.extensions
    if extensions.get_extension_for_class(x509.SubjectAlternativeName).critical is not (request.kind is Kind.LAK):
        problems.append("criticality of the alternative name")
    usages = list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    if usages[0] != (AK_USAGE if request.kind is Kind.LAK else ExtendedKeyUsageOID.CLIENT_AUTH):
        problems.append("extended key usage")
    if any(
        extension.critical and not isinstance(extension.value, x509.SubjectAlternativeName) for extension in extensions
    ):
        problems.append("a critical extension besides the alternative name")
    if bool(list(made.subject)) is not (request.kind is Kind.LDEVID):
        problems.append("subject")
    try:
        made.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        problems.append("signature")
    return tuple(problems)
