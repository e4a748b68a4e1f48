"""Panels of the object pages."""

from django.utils.translation import gettext_lazy as _
from netbox.ui import attrs, panels

from netbox_fleet.ui.live import state_of
from netbox_fleet.ui.strip import check_strip


class MachinePanel(panels.ObjectAttributesPanel):
    device = attrs.RelatedObjectAttr("device", linkify=True)
    device_type = attrs.RelatedObjectAttr("device.device_type", linkify=True, label=_("Device type"))
    device_serial = attrs.TextAttr("device.serial", style="font-monospace", label=_("Serial number"))
    site = attrs.RelatedObjectAttr("device.site", linkify=True)
    node_name = attrs.TextAttr("node_name", copy_button=True)
    machine_class = attrs.RelatedObjectAttr("machine_class", linkify=True, label=_("Class"))
    disk_serial = attrs.TextAttr("disk_serial", style="font-monospace", copy_button=True)
    disk_wwn = attrs.TextAttr("disk_wwn", style="font-monospace", label=_("Disk WWN"))
    extra_disks = attrs.ArrayAttr("extra_disks", style="font-monospace")
    bmc_address = attrs.TextAttr("bmc_address", label=_("BMC address"))
    bmc_secret = attrs.TextAttr("bmc_secret", label=_("BMC secret"))
    firmware = attrs.TextAttr("firmware")
    version = attrs.TextAttr("installed_version", label=_("Installed from"))


class MachineClassPanel(panels.ObjectAttributesPanel):
    slug = attrs.TextAttr("slug")
    family = attrs.TextAttr("family")
    installable = attrs.BooleanAttr("installable")
    reason = attrs.TextAttr("reason", label=_("Why not"))
    warning = attrs.TextAttr("warning")
    two_person = attrs.BooleanAttr("two_person", label=_("Needs a second person"))
    role = attrs.TextAttr("role")
    digest = attrs.TextAttr("digest", style="font-monospace", copy_button=True)
    seen_at = attrs.DateTimeAttr("seen_at", label=_("Last reported"))


class EndorsementKeyPanel(panels.ObjectAttributesPanel):
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    candidates = attrs.RelatedObjectListAttr("candidates", linkify=True, max_items=20, label=_("May belong to"))
    status = attrs.ChoiceAttr("status")
    public_hash = attrs.TextAttr("public_hash", style="font-monospace", copy_button=True)
    certificate_sha256 = attrs.TextAttr(
        "certificate_sha256", style="font-monospace", copy_button=True, label=_("Certificate fingerprint")
    )
    first_seen_address = attrs.TextAttr("first_seen_address", label=_("First seen at"))
    decided_by = attrs.TextAttr("decided_by")
    decided_at = attrs.DateTimeAttr("decided_at")
    decision_reason = attrs.TextAttr("decision_reason", label=_("Reason"))


class TPMPanel(panels.ObjectAttributesPanel):
    title = _("TPM")
    chain_status = attrs.ChoiceAttr("chain_status", label=_("Vouched for by"))
    key_type = attrs.TextAttr("key_type")
    manufacturer = attrs.TextAttr("manufacturer")
    model = attrs.TextAttr("model")
    version = attrs.TextAttr("version")


class RunPanel(panels.ObjectAttributesPanel):
    run_id = attrs.TextAttr("run_id", style="font-monospace", copy_button=True, label=_("Run ID"))
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    machine_name = attrs.TextAttr("machine_name", label=_("Node name"))
    kind = attrs.ChoiceAttr("kind")
    requester = attrs.TextAttr("requester", label=_("Asked by"))


class AttestationPanel(panels.ObjectAttributesPanel):
    attestation_id = attrs.TextAttr("attestation_id", style="font-monospace", label=_("Attestation ID"))
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    run = attrs.RelatedObjectAttr("run", linkify=True)
    kind = attrs.ChoiceAttr("kind")
    passed = attrs.BooleanAttr("passed")
    policy = attrs.TextAttr("policy")
    secure_boot = attrs.BooleanAttr("secure_boot")
    pcr_digest = attrs.TextAttr("pcr_digest", style="font-monospace", copy_button=True, label=_("PCR digest"))
    time = attrs.DateTimeAttr("time")


class DeviceCertificatePanel(panels.ObjectAttributesPanel):
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    machine_name = attrs.TextAttr("machine_name", label=_("Node name"))
    kind = attrs.ChoiceAttr("kind")
    valid = attrs.BooleanAttr("valid")
    serial = attrs.TextAttr("serial", style="font-monospace", copy_button=True)
    fingerprint = attrs.TextAttr("fingerprint", style="font-monospace", copy_button=True, label=_("SHA-256"))
    issuer = attrs.TextAttr("issuer")
    not_before = attrs.DateTimeAttr("not_before")
    not_after = attrs.DateTimeAttr("not_after")
    revoked_at = attrs.DateTimeAttr("revoked_at")
    revocation_reason = attrs.TextAttr("revocation_reason")


class BootCheckPanel(panels.ObjectAttributesPanel):
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    time = attrs.DateTimeAttr("time")
    result = attrs.ChoiceAttr("result")


class StatementPanel(panels.ObjectAttributesPanel):
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    machine_name = attrs.TextAttr("machine_name", label=_("Node name"))
    kind = attrs.ChoiceAttr("kind")
    subject = attrs.TextAttr("subject", style="font-monospace")
    by = attrs.TextAttr("by", label=_("Said by"))
    time = attrs.DateTimeAttr("time")
    reason = attrs.TextAttr("reason")
    state = attrs.ChoiceAttr("state")
    answer = attrs.TextAttr("answer", label=_("What the service says"))
    statement_id = attrs.TextAttr("statement_id", style="font-monospace", label=_("Statement ID"))
    intent_id = attrs.TextAttr("intent_id", style="font-monospace", label=_("Intent ID"))


class BaselinePanel(panels.ObjectAttributesPanel):
    machine = attrs.RelatedObjectAttr("machine", linkify=True)
    digest = attrs.TextAttr("digest", style="font-monospace", copy_button=True)
    state = attrs.ChoiceAttr("state")
    time = attrs.DateTimeAttr("time", label=_("Offered"))
    decision = attrs.ChoiceAttr("decision")
    decided_by = attrs.TextAttr("decided_by")
    decided_at = attrs.DateTimeAttr("decided_at")
    decision_reason = attrs.TextAttr("decision_reason", label=_("Reason"))


class LivePanel(panels.ObjectPanel):
    """What the machine is doing now; refreshes itself."""

    template_name = "netbox_fleet/panels/live.html"
    title = _("State")

    def get_context(self, context):
        found = super().get_context(context)
        return {**found, **state_of(found["object"])}


class RunLivePanel(panels.ObjectPanel):
    """How far the run is; refreshes itself until it is final."""

    template_name = "netbox_fleet/panels/run_live.html"
    title = _("Progress")


class CheckStripPanel(panels.ObjectPanel):
    """The boot checks of the last 30 days, hour by hour."""

    template_name = "netbox_fleet/panels/strip.html"
    title = _("Boot checks, last 30 days")

    def get_context(self, context):
        found = super().get_context(context)
        return {**found, "strip": check_strip(found["object"])}

    def should_render(self, context):
        return bool(context["object"].check_days)


class FindingsPanel(panels.ObjectPanel):
    """Why a verdict is what it is, in words for an owner."""

    template_name = "netbox_fleet/panels/findings.html"
    title = _("Findings")


class PairsPanel(panels.ObjectPanel):
    """A JSON object as a table of names and values."""

    template_name = "netbox_fleet/panels/pairs.html"

    def __init__(self, field_name, **kwargs):
        super().__init__(**kwargs)
        self.field_name = field_name

    def get_context(self, context):
        found = super().get_context(context)
        return {**found, "pairs": flat_pairs(getattr(found["object"], self.field_name) or {})}

    def should_render(self, context):
        return bool(context["pairs"])


class RunEvidencePanel(PairsPanel):
    """What a run proved; comes with the refresh of its progress."""

    template_name = "netbox_fleet/panels/run_evidence.html"
    title = _("Evidence")

    def __init__(self, **kwargs):
        super().__init__("evidence", **kwargs)

    def should_render(self, context):
        return bool(context["pairs"]) or not context["object"].final


class DifferencePanel(panels.ObjectPanel):
    """What differs from the accepted measurements."""

    template_name = "netbox_fleet/panels/difference.html"
    title = _("Difference")

    def get_context(self, context):
        found = super().get_context(context)
        return {**found, "rows": difference_rows(found["object"].difference)}


class DriftPanel(panels.ObjectPanel):
    """Where the machine's own report differs from what is declared of it."""

    template_name = "netbox_fleet/panels/drift.html"
    title = _("Hardware that differs from what is declared")

    def should_render(self, context):
        return bool(context["object"].drift)


class CertificatePEMPanel(panels.TextCodePanel):
    """The certificate itself."""

    def __init__(self, **kwargs):
        super().__init__("pem", title=_("PEM"), **kwargs)


_DIFFERENCE = {"sentence": _("What"), "pcr": _("PCR"), "event": _("Event"), "old": _("Before"), "new": _("Now")}


def difference_rows(difference):
    """Return each change as `(name, text)` pairs: what it means first, then the event, before and now."""
    rows = [row if isinstance(row, dict) else {"sentence": row} for row in difference or []]
    order = {name: place for place, name in enumerate(_DIFFERENCE)}
    return [
        [
            (_DIFFERENCE.get(name, name), text or "-")
            for name, text in sorted(flat_pairs(row), key=lambda pair: order.get(pair[0], 9))
        ]
        for row in rows
    ]


def flat_pairs(value, prefix="", most=300):
    """Return `(dotted name, text)` of a JSON object, at most `most` of them."""
    found = []
    for name, told in value.items():
        dotted = f"{prefix}{name}"
        rows = isinstance(told, list) and any(isinstance(item, dict) for item in told)
        part = {str(number): item for number, item in enumerate(told, 1)} if rows else told
        if isinstance(part, dict) and part:
            found += flat_pairs(part, f"{dotted}.", most)
        elif isinstance(part, list):
            found.append((dotted, ", ".join(str(item) for item in part)))
        else:
            found.append((dotted, "" if part is None else str(part)))
    return found[:most]
