"""`python -m fleetd`, and the `fleetd` program."""

import sys


def main() -> None:
    """Run the program; where only the plugin is installed, say what is missing."""
    try:
        from fleetd.cli import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"fleetd: {error.name} is not installed. Install the service: pip install 'netbox-fleet[service]'")
    run()


if __name__ == "__main__":
    main()
