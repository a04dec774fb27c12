"""The stream of changes: the event history, which is derived from the log, from a position on.

A follower holds one batch of changes at a time, so a client that does not read costs bounded memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Reader, Refused, Unreadable
from remuda_bus.status_codes import BUSY, GONE
from remuda_bus.untrusted import number_in
from remuda_operations.operator_api.messages import Caller, rm_of
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.si.v1 import si_pb2 as si

# Clients that follow or read changes in one process: each has a consumer and a batch. A dashboard is one of them.
CHANGE_READERS = 200
# Of them, those of the clients of one RM, so that one RM does not take the places of operators and of other RMs.
CHANGE_READERS_OF_RM = 10
# Changes that a follower holds.
CHANGES_PER_BATCH = 1_000
# A follower that has no changes for its client sends the position so often. So a dead client is noticed, and one that
# resumes does not read everything again.
CHANGES_POSITION_INTERVAL_S = 5.0
# The longest wait of a request for changes: a request of the bus is answered within a bounded time.
CHANGES_WAIT_MS = 10_000
# Changes that are there arrive within this time.
CHANGES_READ_S = 0.5

STREAM: Final = subjects.EVENTS.name


class Changes:
    """The followers of this process, of which there is a bounded number."""

    def __init__(self) -> None:
        self._count = 0
        self._of_rms: Counter[str] = Counter()  # by RM, those of callers that may read about it alone

    async def follow(
        self, bus: Bus, caller: Caller, request: admin.FollowChangesRequest
    ) -> AsyncGenerator[admin.Change]:
        """Yields changes for ever. A change without an event has the position up to which there are no more."""
        async with self._reading(bus, caller, request) as (reader, position):
            selects = _Selection(request)
            yield admin.Change(position=position)
            while True:
                batch = await reader.batch(CHANGES_PER_BATCH, timeout_s=CHANGES_POSITION_INTERVAL_S)
                position = batch[-1].seq if batch else position
                sent = 0
                for change in map(_change, batch):
                    if selects(change):
                        sent = change.position
                        yield change
                if sent != position:
                    yield admin.Change(position=position)

    async def read(self, bus: Bus, caller: Caller, request: admin.ReadChangesRequest) -> admin.ReadChangesResponse:
        wait_s = min(request.wait_ms, CHANGES_WAIT_MS) / 1_000
        most = min(request.limit or CHANGES_PER_BATCH, CHANGES_PER_BATCH)
        async with self._reading(bus, caller, request) as (reader, position):
            response, selects = admin.ReadChangesResponse(position=position), _Selection(request)
            give_up = asyncio.get_running_loop().time() + wait_s
            while request.after or request.from_oldest:
                left_s = give_up - asyncio.get_running_loop().time()
                batch = await reader.batch(most, timeout_s=max(left_s, CHANGES_READ_S))
                if not batch:
                    break
                response.position = batch[-1].seq
                response.changes.extend(filter(selects, map(_change, batch)))
                if response.changes or left_s <= 0:
                    break
            return response

    @asynccontextmanager
    async def _reading(self, bus: Bus, caller: Caller, request: Any) -> AsyncIterator[tuple[Reader, int]]:
        """A reader, and the position behind which it reads. Raises Refused."""
        subject = subjects.event(rm_of(request) if request.rm else "*")
        position = await _begin(bus, request)
        if self._count >= CHANGE_READERS:
            raise Refused(f"{self._count} clients follow changes here already, try another front end", BUSY)
        if not caller.reads_all and self._of_rms[request.rm] >= CHANGE_READERS_OF_RM:
            of_rm = f"{CHANGE_READERS_OF_RM} clients of {request.rm!r}"
            raise Refused(f"{of_rm} follow its changes here already, expected fewer", BUSY)
        self._count += 1
        self._of_rms[request.rm] += not caller.reads_all
        try:
            reader = await bus.read(STREAM, subject, position)
            try:
                yield reader, position
            finally:
                await reader.close()
        finally:
            self._count -= 1
            self._of_rms[request.rm] -= not caller.reads_all
            self._of_rms += Counter()  # drops those without readers


class _Selection:
    """A predicate of changes: whether a request selects a change."""

    def __init__(self, request: Any) -> None:
        self._types = frozenset(request.types)
        self._ids = frozenset(request.ids)

    def __call__(self, change: admin.Change) -> bool:
        event = change.event
        if self._types and event.type not in self._types:
            return False
        return not self._ids or event.objectID in self._ids or event.referenceID in self._ids


async def _begin(bus: Bus, request: Any) -> int:
    """The position behind which to read. Raises Refused with GONE if changes behind it were deleted."""
    if request.from_oldest:
        return 0
    last = await bus.last_sequence(STREAM)
    if not request.after:
        return last
    if request.after > last:
        raise Refused(f"after is {request.after}, but the newest change has the position {last}", GONE)
    oldest = await bus.first_message(STREAM, subjects.event("*"))
    first = oldest.seq if oldest is not None else last + 1
    if request.after + 1 < first:
        raise Refused(f"after is {request.after}, but the oldest change that is kept has the position {first}", GONE)
    return int(request.after)


def _change(message: Message) -> admin.Change:
    try:
        event = si.EventRecord.FromString(message.payload)
    except DecodeError as error:
        raise Unreadable(f"change {message.seq}: {error}") from error
    log_seq = number_in(message.headers, subjects.LOG_SEQ, 0)
    return admin.Change(position=message.seq, rm=subjects.rm_of(message.subject), log_seq=log_seq, event=event)
