"""A stand-in for Tinkerbell: Kubernetes API subset, tink-controller, agent gRPC and Rufio in one small process."""
