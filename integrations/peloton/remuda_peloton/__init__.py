"""Peloton's resource manager: pools, entitlement, admission, and the RPCs of its clients."""
