"""What each certificate of fleetd contains: stated once, checked before signing and after."""
