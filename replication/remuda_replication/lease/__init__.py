"""Leases: which process works, and which core process leads which RM.

A lease is an entry of a bucket whose entries expire; its holder renews it. The holder also answers requests on a
subject of the lease, so a process that waits for the lease notices a dead holder long before the entry expires.

Leases are for liveness only. A holder that was stopped for a while may believe in a lease that has expired. The chain
of the log keeps two leaders from doing harm (docs/adr/leases-and-standbys.md, log-and-chain.md)."""

from remuda_replication.lease.holder import Holder, HolderLiveness
from remuda_replication.lease.lease import Lease

__all__ = ["Holder", "HolderLiveness", "Lease"]
