"""The scheduler of one RM as a state machine on the bus, and how its memory is freed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Final

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged
from remuda_bus.untrusted import number_in
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import Position, check_published

from .. import check, limits
from ..core import Core
from ..snapshot import restore_one, save
from ..state import Partition, State
from ..wire import schema, snapshot_format
from . import replay
from .deciding import Deciding
from .metrics import REPLICATION

# Records of a snapshot that are restored before other tasks of the process continue: 20 ms.
RECORDS_RESTORED_AT_ONCE = 1_000


class CoreMachine:
    """A `remuda_replication.machine.Machine`."""

    commit_class: Final = schema.Commit
    metrics: Final = REPLICATION

    def __init__(self, core: Core, allocations_per_pass: int = limits.ALLOCATIONS_PER_PASS) -> None:
        self._core = core
        self._allocations_per_pass = allocations_per_pass
        self.log_id = core.state.rm_id

    @property
    def inbox_seq(self) -> int:
        return self._core.state.inbox_seq

    @property
    def now_ms(self) -> int:
        return self._core.state.now_ms

    def size(self) -> int:
        return size_of(self._core.state)

    def begin(self) -> None:
        self._core.go_on_from(State(self.log_id))

    def follow_only(self) -> None:
        self._core.index.forget()

    def apply(self, commit: log_pb2.Commit) -> int:
        return replay.apply(self._core, commit)

    def save(self, position: Position) -> Iterator[bytes]:
        return snapshot_format.write(self.log_id, position, save(self._core.state))

    async def restore(self, payload: bytes) -> Position:
        position, records = snapshot_format.read(self.log_id, payload)
        state = State(self.log_id)
        for number, record in enumerate(records):
            restore_one(state, record)
            if number % RECORDS_RESTORED_AT_ONCE == 0:
                await asyncio.sleep(0)  # lets the process renew its lease and lead other RMs
        self._core.go_on_from(state)
        return position

    def digest(self) -> bytes:
        return check.digest(self._core.state).encode()

    async def discard(self) -> None:
        await discard(self._core)

    def deciding(self, clock_ms: Callable[[], int]) -> Deciding:
        return Deciding(self._core, clock_ms, self._allocations_per_pass)

    async def check_past(self, bus: Bus) -> None:
        """Check that LOG holds all published commits, and that REQUESTS holds what the log has answered: otherwise new
        requests would get the numbers of answered ones. Raises HistoryChanged."""
        await check_published(bus, self.log_id)
        end = await bus.last_sequence(subjects.REQUESTS.name)
        if end < (answered := self._core.state.request_seq):
            raise HistoryChanged(f"stream {subjects.REQUESTS.name} ends at {end}, but {answered} was answered")

    async def published_up_to(self, bus: Bus, newest: int) -> int:
        return min(
            await _published_callback(bus, self.log_id),
            await _published_event(bus, self.log_id, newest),
            await _in_ledger(bus, self.log_id, newest),
        )


async def _published_callback(bus: Bus, rm_id: str) -> int:
    """The stream sequence of the commit of the newest callback, from which rmproxy continues. 0: there is no callback,
    and rmproxy begins with the oldest commit."""
    newest = await asyncio.gather(
        *(bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    return max(
        (number_in(message.headers, subjects.LOG_SEQ, 0) for message in newest if message is not None), default=0
    )


async def _published_event(bus: Bus, rm_id: str, newest: int) -> int:
    """The stream sequence of the commit from which the event history continues. `newest`: the RM has no history yet,
    which may then begin there."""
    mark = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
    event = await bus.last_message(subjects.EVENTS.name, subjects.event(rm_id))
    published = [json.loads(mark.value)["seq"]] if mark is not None and mark.value is not None else []
    if event is not None:
        published.append(number_in(event.headers, subjects.LOG_SEQ, 0))
    return max(published, default=newest)


async def _in_ledger(bus: Bus, rm_id: str, newest: int) -> int:
    """The stream sequence of the commit from which the ledger continues; `newest`: the RM has none."""
    mark = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(rm_id))
    return newest if mark is None or mark.value is None else int(json.loads(mark.value)["seq"])


def size_of(state: State) -> int:
    """The number of nodes, queues, applications, asks and allocations."""
    return sum(
        len(partition.nodes) + len(partition.queues) + len(partition.allocations) + len(partition.applications)
        + sum(len(application.asks) for application in partition.applications.values())
        for partition in state.partitions.values()
    )  # fmt: skip


async def discard(core: Core) -> None:
    partitions = list(core.state.partitions.values())
    core.go_on_from(State(core.state.rm_id))
    for partition in partitions:
        await _take_apart(partition)


async def _take_apart(partition: Partition) -> None:
    partition.allocations.clear()  # nodes and applications still refer to them
    for number, node in enumerate(partition.nodes.values()):
        node.allocations.clear()
        if number % limits.DISCARDED_AT_ONCE == 0:
            await asyncio.sleep(0)
    freed = 0
    for application in partition.applications.values():
        for entries in (application.allocations, application.asks):
            while entries:
                entries.popitem()
                freed += 1
                if freed % limits.DISCARDED_AT_ONCE == 0:
                    await asyncio.sleep(0)
    partition.nodes.clear()
    partition.applications.clear()
    partition.queues.clear()
