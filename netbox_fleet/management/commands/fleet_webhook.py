"""Register the webhook by which NetBox tells fleetd at once that something of the fleet changed."""

import secrets

from core.models import ObjectType
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import URLValidator
from django.db import transaction
from extras.models import EventRule, Webhook

from netbox_fleet.choices import KeyStatusChoices, StatementStateChoices

_NAME = "fleetd"
_EVENTS = ("object_created", "object_updated", "object_deleted")
# A machine that enrolls or is checked makes rows of its own; only what a person decides on them concerns fleetd, and a
# webhook costs NetBox a job of its queue. `conditions` are those of an event rule (NetBox, "Conditions").
_RULES = (
    (
        "fleetd",
        (
            ("netbox_fleet", "machine"),
            ("dcim", "device"),
            ("dcim", "interface"),
            ("dcim", "macaddress"),
            ("ipam", "ipaddress"),
        ),
        None,
    ),
    (
        "fleetd: decisions on keys",
        (("netbox_fleet", "endorsementkey"),),
        {"attr": "status.value", "value": KeyStatusChoices.PENDING, "negate": True},
    ),
    (
        "fleetd: decisions on baselines",
        (("netbox_fleet", "baseline"),),
        {"attr": "decision", "value": None, "negate": True},
    ),
    (
        "fleetd: statements",
        (("netbox_fleet", "statement"),),
        {"attr": "state.value", "value": StatementStateChoices.GIVEN},
    ),
)
_BODY = (
    """{"model": "{{ object_type.split('.')[1] }}", "data": {"id": {{ data.id }}"""
    """{% if data.machine %}, "machine": {"id": {{ data.machine.id }}}{% endif %}}}"""
)


class Command(BaseCommand):
    """`netbox fleet_webhook URL` prints the signing secret once; fleetd checks `X-Hook-Signature` with it."""

    help = "Make or renew the webhook and event rules that wake fleetd; prints the signing secret once."

    def add_arguments(self, parser):
        parser.add_argument("url", help="fleetd's hook, for example https://fleetd.example/hooks/netbox")
        parser.add_argument("--ca-file", default="", help="file that verifies fleetd's certificate")
        parser.add_argument("--quiet", action="store_true", help="print nothing but the secret")

    def handle(self, *args, **options):
        try:
            URLValidator(schemes=["http", "https"])(options["url"].replace("://localhost", "://127.0.0.1"))
        except Exception as problem:
            raise CommandError(f"not a URL: {options['url']}") from problem
        secret = secrets.token_urlsafe(32)
        with transaction.atomic():
            hook, _ = Webhook.objects.update_or_create(
                name=_NAME,
                defaults={
                    "payload_url": options["url"],
                    "http_method": "POST",
                    "http_content_type": "application/json",
                    # The message only says where to look: no data of the record leaves NetBox by it.
                    "body_template": _BODY,
                    "secret": secret,
                    "ssl_verification": True,
                    "ca_file_path": options["ca_file"] or None,
                },
            )
            for name, models, conditions in _RULES:
                rule, _ = EventRule.objects.update_or_create(
                    name=name,
                    defaults={
                        "event_types": list(_EVENTS),
                        "action_type": "webhook",
                        "action_object_type": ObjectType.objects.get_for_model(Webhook),
                        "action_object_id": hook.pk,
                        "conditions": conditions and {"and": [conditions]},
                        "enabled": True,
                    },
                )
                rule.object_types.set([ObjectType.objects.get(app_label=app, model=model) for app, model in models])
        if options["quiet"]:
            self.stdout.write(secret)
            return
        self.stdout.write("NetBox's queue worker (manage.py rqworker) must run for webhooks to be sent.")
        self.stdout.write("The signing secret, shown this once; write it to fleetd's webhook secret file, mode 0600:")
        self.stdout.write(secret)
