"""Peloton's tasks as guests in a partition of a resource manager (RM) of si.v1 (docs/adr/shared-hosts.md). Pure."""
