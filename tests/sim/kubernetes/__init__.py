"""A Kubernetes cluster in the simulation: its API server, kubelets, controllers and users, and the front ends."""
