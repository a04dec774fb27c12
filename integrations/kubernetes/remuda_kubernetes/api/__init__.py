"""The client of the Kubernetes API: credentials, verbs, the objects that count, and reflectors."""
