"""The fleetd service: attests, installs and checks bare-metal machines."""
