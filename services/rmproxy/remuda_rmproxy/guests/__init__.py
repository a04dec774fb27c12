"""Guests: applications of another scheduler in the partitions of an RM (ADR 0113)."""
