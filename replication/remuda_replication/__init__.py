"""Replication: how a state machine lives on the bus. One process leads a machine and appends commits to its log;
standbys follow the log; snapshots shorten a start. This room knows machines by a protocol (`machine.Machine`): the
scheduler of one RM, or a Peloton resource manager (docs/adr/leases-and-standbys.md)."""
