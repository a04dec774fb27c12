"""What the shell of a state machine can be told."""

from __future__ import annotations

from typing import Protocol


class ReplicationSettings(Protocol):
    """Times in seconds. `snapshot_in_child` False: snapshots are written by the process itself, which pauses."""

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
