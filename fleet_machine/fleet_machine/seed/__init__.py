"""The installed system: claiming its seed once, and the boot check from then on."""
