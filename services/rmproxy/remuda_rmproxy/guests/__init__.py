"""Guests: applications of another scheduler in the partitions of an RM (docs/adr/shared-hosts.md)."""
