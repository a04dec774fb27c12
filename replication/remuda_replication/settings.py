"""The settings of replication, and their defaults."""

from __future__ import annotations

from typing import Protocol

# Core processes that follow an RM beside its leader (default of `core.standbys`). One tolerates the loss of a process.
STANDBYS = 1
# A snapshot is due after so many facts, which a restart replays in seconds, or after so long, so that a quiet RM has
# one, too; never sooner than SNAPSHOT_APART_S, because encoding takes seconds per 100,000 allocations.
SNAPSHOT_FACTS = 200_000
SNAPSHOT_S = 300.0
SNAPSHOT_APART_S = 20.0
# How long logs and inboxes are kept behind snapshots, for audits, `story`, and readers that were stopped.
REPLAY_HORIZON_S = 7 * 86_400.0


class ReplicationSettings(Protocol):
    """The settings of a process that leads logs. Times in seconds.

    `snapshot_facts`: facts after which a snapshot is written. `snapshot_s`: the time after which a snapshot is written
    if there are new facts. `snapshot_apart_s`: the least time between two snapshots. `snapshot_in_child`: a forked
    child writes snapshots; False: the process itself writes them, and pauses meanwhile. `replay_horizon_s`: logs and
    inboxes keep messages that are younger."""

    @property
    def snapshot_facts(self) -> int: ...

    @property
    def snapshot_s(self) -> float: ...

    @property
    def snapshot_apart_s(self) -> float: ...

    @property
    def snapshot_in_child(self) -> bool: ...

    @property
    def replay_horizon_s(self) -> float: ...
