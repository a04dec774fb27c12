"""The shell of a state machine on the bus: who leads, who follows, commits, snapshots. It knows machines by a protocol
(`machine.Machine`): the scheduler of one RM, or a Peloton resource manager (docs/adr/leases-and-standbys.md)."""
