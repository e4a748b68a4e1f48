"""Images of the lab: the HookOS stand-in, the action image and what gets installed."""
