"""What runs inside the HookOS stand-in: pull an action image by digest and run it with crun."""
