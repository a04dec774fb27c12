"""A resource manager as a state machine on the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from remuda_bus.bus import Bus
from remuda_proto.remuda.resmgr.v1 import log_pb2
from remuda_replication.log import Position

from ..core import Core
from ..settings import Periods
from ..state import State
from ..wire import snapshots
from ..wire.messages import read_fact
from .deciding import Deciding
from .metrics import REPLICATION


class ResmgrMachine:
    """A `remuda_replication.machine.Machine`."""

    commit_class: Final[Any] = log_pb2.Commit
    metrics: Final = REPLICATION

    def __init__(self, log_id: str, core: Core, periods: Periods | None) -> None:
        self.log_id = log_id
        self._core = core
        self._periods = periods
        self.inbox_seq = 0

    @property
    def now_ms(self) -> int:
        return self._core.state.now_ms

    def size(self) -> int:
        return snapshots.size_of(self._core.state)

    def begin(self) -> None:
        self._core.state, self.inbox_seq = State(), 0

    def follow_only(self) -> None:
        """Nothing is kept for deciding alone."""

    def apply(self, commit: Any) -> int:
        facts = [read_fact(fact) for decision in commit.decisions for fact in decision.facts[:]]
        self._core.replay(facts, commit.now_ms)
        self.inbox_seq = commit.inbox_seq
        return len(facts)

    def save(self, position: Position) -> Iterator[bytes]:
        return snapshots.write(self.log_id, position, self.inbox_seq, self._core.state)

    async def restore(self, payload: bytes) -> Position:
        position, self.inbox_seq, self._core.state = snapshots.read(self.log_id, payload)
        return position

    def digest(self) -> bytes:
        return snapshots.digest(self._core.state).encode()

    async def discard(self) -> None:
        self.begin()
        await asyncio.sleep(0)

    def deciding(self, clock_ms: Callable[[], int]) -> Deciding:
        return Deciding(self._core, clock_ms, self._periods, self.inbox_seq, self._seen)

    def _seen(self, inbox_seq: int) -> None:
        self.inbox_seq = inbox_seq

    async def check_past(self, bus: Bus) -> None:
        """Nothing is derived from the log into another stream."""

    async def published_up_to(self, bus: Bus, newest: int) -> int:
        return newest
