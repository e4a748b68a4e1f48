"""The kinds that the stand-in serves, each reduced to the fields that a fleet uses."""

from dataclasses import dataclass

from fleet_lab.tinkerbell.schema import Shape, anything, flag, many, mapping, number, record, text

TINKERBELL = "tinkerbell.org"
BMC = "bmc.tinkerbell.org"


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource: where it is served and what it may hold."""

    group: str
    version: str
    plural: str
    singular: str
    name: str
    shape: Shape
    """Of everything beside apiVersion, kind and metadata."""
    has_status: bool = True
    """Whether status is a subresource, written only through it."""
    has_rules: bool = False
    """Whether rules beyond the schema exist, which are skipped (and said so) when types are wrong."""
    short: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """The value of apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version


_OCTET = r"(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"
_IPV4 = rf"({_OCTET}\.){{3}}{_OCTET}"
_REFERENCE = record({"name": text(), "namespace": text()})

_DHCP = record(
    {
        "arch": text(),
        "boot_file_name": text(),
        "domain_name": text(),
        "hostname": text(),
        "iface_name": text(),
        "ip": record({"address": text(), "family": number(), "gateway": text(), "netmask": text()}),
        "lease_time": number(),
        "mac": text(pattern="([0-9a-f]{2}[:]){5}([0-9a-f]{2})"),
        "name_servers": many(text()),
        "tftp_server_name": text(),
        "time_servers": many(text()),
        "uefi": flag(),
        "vlan_id": text(
            pattern="^(([0-9][0-9]{0,2}|[1-3][0-9][0-9][0-9]|40([0-8][0-9]|9[0-6]))"
            "(,[1-9][0-9]{0,2}|[1-3][0-9][0-9][0-9]|40([0-8][0-9]|9[0-6]))*)$"
        ),
        "classless_static_routes": many(
            record(
                {
                    "destination_descriptor": text(pattern=rf"^{_IPV4}/(3[0-2]|[12]?[0-9])$"),
                    "router": text(pattern=rf"^{_IPV4}$"),
                },
                required=("destination_descriptor", "router"),
            )
        ),
    }
)
_NETBOOT = record(
    {
        "allowPXE": flag(),
        "allowWorkflow": flag(),
        "ipxe": record({"binary": text(), "contents": text(), "url": text()}),
        "osie": record({"baseURL": text(), "initrd": text(), "kernel": text(), "kernelParams": many(text())}),
    }
)
_HARDWARE = record(
    {
        "spec": record(
            {
                "agentID": text(),
                "auto": record({"enrollmentEnabled": flag(default=False)}),
                "bmcRef": record({"apiGroup": text(), "kind": text(), "name": text()}, required=("kind", "name")),
                "disks": many(record({"device": text()})),
                "interfaces": many(record({"dhcp": _DHCP, "disableDhcp": flag(default=False), "netboot": _NETBOOT})),
                "metadata": record(
                    {
                        "facility": record({"facility_code": text(), "plan_slug": text()}),
                        "instance": record(
                            {
                                "allow_pxe": flag(),
                                "always_pxe": flag(),
                                "hostname": text(),
                                "id": text(),
                                "state": text(),
                                "tags": many(text()),
                                "userdata": text(),
                            }
                        ),
                        "manufacturer": record({"id": text(), "slug": text()}),
                        "state": text(),
                    }
                ),
                "tinkVersion": number(),
                "userData": text(),
                "vendorData": text(),
            }
        ),
        "status": record({"state": text()}),
    }
)
_TEMPLATE = record({"spec": record({"data": text()}), "status": record({"state": text()})})

_POWER_ACTIONS = ("on", "off", "soft", "status", "cycle", "reset")
_BMC_ACTION = record(
    {
        "bootDevice": record({"device": text(), "efiBoot": flag(), "persistent": flag()}),
        "oneTimeBootDeviceAction": record({"device": many(text()), "efiBoot": flag()}, required=("device",)),
        "powerAction": text(enum=_POWER_ACTIONS),
        "virtualMediaAction": record({"kind": text(), "mediaURL": text()}, required=("kind",)),
    },
    at_most=1,
)
_ACTION_STATUS = record(
    {
        "command": many(text()),
        "environment": mapping(text()),
        "executionDuration": text(),
        "executionStart": text(),
        "executionStop": text(),
        "id": text(),
        "image": text(),
        "message": text(),
        "name": text(),
        "namespaces": record({"network": text(), "pid": text()}),
        "pid": text(),
        "state": text(),
        "timeout": number(),
        "volumes": many(text()),
    },
    required=("id",),
)
_TASK_STATUS = record(
    {
        "actions": many(_ACTION_STATUS),
        "agentID": text(),
        "environment": mapping(text()),
        "id": text(),
        "name": text(),
        "volumes": many(text()),
    },
    required=("actions", "agentID", "id", "name"),
)
_WORKFLOW = record(
    {
        "spec": record(
            {
                "bootOptions": record(
                    {
                        "bootMode": text(enum=("netboot", "isoboot", "iso", "customboot")),
                        "custombootConfig": record(
                            {"postActions": many(_BMC_ACTION), "preparingActions": many(_BMC_ACTION)}
                        ),
                        "isoURL": text(),
                        "toggleAllowNetboot": flag(),
                    }
                ),
                "disabled": flag(),
                "hardwareMap": mapping(text()),
                "hardwareRef": text(),
                "templateRef": text(),
            }
        ),
        "status": record(
            {
                "agentID": text(),
                "bootOptions": record({"allowNetboot": record({"toggledFalse": flag(), "toggledTrue": flag()})}),
                "conditions": many(
                    record(
                        {"message": text(), "reason": text(), "status": text(), "time": text(), "type": text()},
                        required=("status", "type"),
                    )
                ),
                "currentState": record(
                    {
                        "actionID": text(),
                        "actionName": text(),
                        "agentID": text(),
                        "state": text(),
                        "taskID": text(),
                        "taskName": text(),
                    }
                ),
                "globalExecutionStop": text(),
                "globalTimeout": number(),
                "state": text(),
                "tasks": many(_TASK_STATUS),
                "templateRendering": text(),
            }
        ),
    }
)
_CONNECTION = record(
    {
        "authSecretRef": _REFERENCE,
        "host": text(min_length=1),
        "insecureTLS": flag(),
        "port": number(default=623),
        "providerOptions": record(
            {
                "intelAMT": record({"hostScheme": text(enum=("http", "https"), default="http"), "port": number()}),
                "ipmitool": record({"cipherSuite": text(), "port": number()}),
                "preferredOrder": many(
                    text(pattern="(?i)^(ipmitool|asrockrack|gofish|IntelAMT|dell|supermicro|openbmc)$")
                ),
                "redfish": record({"port": number(), "systemName": text(), "useBasicAuth": flag()}),
            }
        ),
    },
    required=("host", "insecureTLS"),
)
_CONDITIONS = many(
    record({"lastUpdateTime": text(), "message": text(), "status": text(), "type": text()}, required=("status", "type"))
)
_STEP_CONDITIONS = many(record({"message": text(), "status": text(), "type": text()}, required=("status", "type")))
_PROGRESS = record({"completionTime": text(), "conditions": _STEP_CONDITIONS, "startTime": text()})
_MACHINE = record(
    {
        "spec": record({"connection": _CONNECTION}, required=("connection",)),
        "status": record({"conditions": _CONDITIONS, "powerState": text(enum=("on", "off", "unknown"))}),
    }
)
_JOB = record(
    {
        "spec": record(
            {
                "machineRef": record({"name": text(), "namespace": text()}, required=("name", "namespace")),
                "tasks": many(_BMC_ACTION, at_least=1),
            },
            required=("machineRef", "tasks"),
        ),
        "status": _PROGRESS,
    }
)
_TASK = record(
    {
        "spec": record({"connection": _CONNECTION, "task": _BMC_ACTION}, required=("task",)),
        "status": _PROGRESS,
    }
)
_SECRET = record(
    {"data": mapping(text()), "stringData": mapping(text()), "type": text(default="Opaque"), "immutable": flag()}
)

HARDWARE = Kind(TINKERBELL, "v1alpha1", "hardware", "hardware", "Hardware", _HARDWARE, has_rules=True, short=("hw",))
TEMPLATE = Kind(TINKERBELL, "v1alpha1", "templates", "template", "Template", _TEMPLATE, short=("tpl",))
WORKFLOW = Kind(TINKERBELL, "v1alpha1", "workflows", "workflow", "Workflow", _WORKFLOW, short=("wf",))
MACHINE = Kind(BMC, "v1alpha1", "machines", "machine", "Machine", _MACHINE)
JOB = Kind(BMC, "v1alpha1", "jobs", "job", "Job", _JOB, short=("j",))
TASK = Kind(BMC, "v1alpha1", "tasks", "task", "Task", _TASK, short=("t",))
SECRET = Kind("", "v1", "secrets", "secret", "Secret", _SECRET, has_status=False)
NAMESPACE = Kind("", "v1", "namespaces", "namespace", "Namespace", record({"spec": anything(), "status": anything()}))

KINDS = (HARDWARE, TEMPLATE, WORKFLOW, MACHINE, JOB, TASK, SECRET)
"""Namespaced kinds; namespaces themselves are a fixed list."""


def kind_at(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind served at a path, or None."""
    return next((k for k in KINDS if (k.group, k.version, k.plural) == (group, version, plural)), None)
