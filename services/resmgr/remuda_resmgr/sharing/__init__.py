"""Peloton's tasks as guests in a partition of a resource manager (RM) of si.v1 (ADR 0113). Pure."""
