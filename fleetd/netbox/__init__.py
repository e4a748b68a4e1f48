"""NetBox as fleetd sees it: declarations in, reports out, through the plugin's two endpoints and nothing else."""
