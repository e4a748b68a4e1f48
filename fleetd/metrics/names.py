"""Every metric that fleetd exposes: what alert rules, the dashboard and the documentation may name."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """A Prometheus metric type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. No label ever names a machine: what grows with the fleet is not a label."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which Prometheus keeps it."""
        if self.kind is Kind.HISTOGRAM:
            return (f"{self.name}_bucket", f"{self.name}_count", f"{self.name}_sum")
        return (f"{self.name}_total",) if self.kind is Kind.COUNTER else (self.name,)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"fleetd_{name}", Kind.GAUGE, text, labels)


BUILD = _gauge("build_info", "The version that answers; always 1.", "version")
DATABASE_UP = _gauge("database_up", "Whether PostgreSQL could be read: 1, or 0, and then nothing else is exposed.")

MACHINES = _gauge("machines", "Machines by what their owner sees.", "phase", "machine_class")
RUNS_OPEN = _gauge("runs_open", "Runs that have not ended, by their state.", "kind", "state")
RUNS_HELD_UP = _gauge(
    "runs_held_up", "Open runs that wait for an outside part that does not answer: Tinkerbell, a BMC, NetBox."
)
RUNS = Metric(
    "fleetd_runs",
    Kind.COUNTER,
    "Runs that ended, by result, and by the code of the finding.",
    ("kind", "result", "reason"),
)
RUN_DURATION = Metric(
    "fleetd_run_duration_seconds", Kind.HISTOGRAM, "From the opening of a run to its end.", ("kind", "result")
)
PHASE_DURATION = Metric(
    "fleetd_phase_duration_seconds", Kind.HISTOGRAM, "How long runs that ended stayed in a state.", ("state",)
)

LOOKS_DUE = _gauge("looks_due", "Machines whose time to be looked at has come.")
OLDEST_LOOK = _gauge("oldest_due_look_seconds", "How long the longest waiting of them waits.")
SWEEP_AGE = _gauge("sweep_age_seconds", "Since the last sweep.")
POLL_AGE = _gauge("netbox_poll_age_seconds", "Since the last poll of NetBox that went well.")
HINTS = Metric("fleetd_webhook_hints", Kind.COUNTER, "Webhooks that NetBox sent and fleetd took.")
MALFORMED = _gauge("declarations_malformed", "Records of NetBox in the last poll that had any which cannot be used.")
REPORTS = _gauge("reports_waiting", "Reports that NetBox has not accepted yet.")
OLDEST_REPORT = _gauge("oldest_report_seconds", "How long the oldest of them waits.")
QUEUE = _gauge("queue_length", "Messages in the broker; absent while the broker does not answer.")

CHECKS = _gauge("boot_checks", "Installed machines by the state of their boot check.", "state")
OLDEST_CHECK = _gauge("oldest_good_check_seconds", "Age of the oldest last good check among active machines.")
KEYS_WAITING = _gauge("endorsement_keys_waiting", "Proven endorsement keys that wait for a person.")
EXPIRING = _gauge("certificates_expiring", "Certificates in force of machines that end within so many days.", "days")
AUTHORITY = _gauge("authority_expiry_timestamp_seconds", "When an authority's certificate ends.", "authority")
SERVER_END = _gauge("server_certificate_expiry_timestamp_seconds", "When the machine listener's TLS certificate ends.")
LIST_AGE = _gauge("crl_age_seconds", "Age of an authority's newest revocation list.", "authority")
LIST_END = _gauge("crl_next_update_timestamp_seconds", "Until when the newest revocation list counts.", "authority")
PAUSED = _gauge("issuance_paused", "1 while a person has stopped the issuing of certificates.")
UNCHAINED = _gauge("audit_unchained", "Audit rows that wait for their place in the chain.")

METRICS: tuple[Metric, ...] = tuple(found for found in list(globals().values()) if isinstance(found, Metric))
"""All of them, in the order of this page."""
