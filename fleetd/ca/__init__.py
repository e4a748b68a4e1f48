"""fleetd's certificate authorities and its service key: issuing, revoking, publishing, signing."""
