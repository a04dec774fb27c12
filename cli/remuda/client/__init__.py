"""Connections to a running system, and what is read from it: buckets, streams, queries to the core."""
