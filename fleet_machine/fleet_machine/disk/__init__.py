"""Disks: finding the declared one, erasing it, writing the image and the seed."""
