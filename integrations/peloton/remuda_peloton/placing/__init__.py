"""Placing gangs on hosts: values in, placements out; no clock and no network."""
