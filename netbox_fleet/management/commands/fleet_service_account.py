"""Make (or renew) the account that fleetd uses, with the least rights that it needs."""

from django.contrib.contenttypes.models import ContentType
from django.core.management.base import BaseCommand
from django.db import transaction
from users.models import ObjectPermission, Token, User

_PERMISSION = "fleetd service account"
_READ = (
    "machine",
    "machineclass",
    "endorsementkey",
    "run",
    "attestation",
    "devicecertificate",
    "bootcheck",
    "baseline",
    "statement",
)


class Command(BaseCommand):
    """`netbox fleet_service_account` prints the token once; nothing keeps it in the clear."""

    help = "Create the service account of fleetd, give it view and report rights, and print a fresh API token once."

    def add_arguments(self, parser):
        parser.add_argument("--username", default="fleetd", help="name of the account (default: fleetd)")
        parser.add_argument("--quiet", action="store_true", help="print nothing but the token")

    def handle(self, *args, **options):
        with transaction.atomic():
            user, made = User.objects.get_or_create(username=options["username"])
            if made:
                user.set_unusable_password()
                user.save()
            _grant(user, f"{_PERMISSION}: view", _READ, ["view"])
            _grant(user, f"{_PERMISSION}: report", ("machine",), ["report"])
            renewed, _ = Token.objects.filter(user=user, description=_PERMISSION).delete()
            token = Token(user=user, description=_PERMISSION, write_enabled=True)
            token.save()
        # Bearer nbt_<key>.<secret>: all of what follows the scheme is what a client needs.
        plain = token.get_auth_header_prefix().removeprefix("Bearer ").removeprefix("Token ").strip() + token.token
        if options["quiet"]:
            self.stdout.write(plain)
            return
        if renewed:
            self.stdout.write("The token before this one is no longer valid.")
        self.stdout.write(
            f"Account {user.username} may view the fleet's records and report about machines; nothing else."
        )
        self.stdout.write("Its token, shown this once; write it to the file that netbox.token_file names, mode 0600:")
        self.stdout.write(plain)


def _grant(user, name, models, actions):
    permission, _ = ObjectPermission.objects.get_or_create(name=name, defaults={"actions": actions})
    permission.actions = actions
    permission.enabled = True
    permission.save()
    permission.object_types.set([ContentType.objects.get(app_label="netbox_fleet", model=model) for model in models])
    permission.users.add(user)
