"""The NetBox plugin: what each bare-metal machine is, whether it can be trusted, and what it waits for."""

from netbox.plugins import PluginConfig

__version__ = "0.1.0"


class FleetConfig(PluginConfig):
    """Registers the plugin with NetBox 4.7."""

    name = "netbox_fleet"
    verbose_name = "Fleet"
    description = "TPM-attested bare-metal lifecycle: provision, prove, check, wipe and retire machines"
    version = __version__
    base_url = "fleet"
    min_version = "4.7.0"
    max_version = "4.7.99"
    default_settings = {
        # Name of the custom field on Prefix that holds the gateway of its addresses.
        "gateway_custom_field": "gateway",
        # A Device or Machine with this tag needs a second person for everything that erases.
        "two_person_tag": "fleet-two-person",
        # Days that final runs, attestations and boot checks are kept; 0 keeps them for ever.
        "run_retention_days": 730,
        "attestation_retention_days": 400,
        "boot_check_retention_days": 400,
    }

    def ready(self):
        """Connect the signals, the system job, the dashboard widget and the Device columns once all apps are loaded."""
        super().ready()

        from netbox_fleet import jobs, signals, widgets  # noqa: F401
        from netbox_fleet.tables import device  # noqa: F401


config = FleetConfig
