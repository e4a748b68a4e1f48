"""What runs on a machine of the fleet: enrollment, install actions and the boot check."""

VERSION = "0.1.0"
