"""Answers queries about RMs from their past: those of cores, with the field `at` (docs/queries.md)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from remuda_archive.segments import Damaged
from remuda_archive.store import Store, StoreFailed
from remuda_bus.bus import HistoryChanged, Refused
from remuda_bus.status_codes import NOT_FOUND, UNAVAILABLE
from remuda_core.shell.queries import Queries
from remuda_proto.bounds import shown

from .past import At, NoPast, Past, Restored
from .when import at_of

# States that are kept for the next page or the next command: a page of rows is followed by others.
STATES_KEPT = 4
# States that are restored at the same time. They share a processor: a short one is not behind a long one.
RESTORED_AT_ONCE = 3
Shown = tuple[Restored, Queries]


class Answers:
    """Answers from one archive. Readers of different moments do not wait for each other; readers of one moment share
    it."""

    def __init__(self, store: Store, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._now = now
        self._states: OrderedDict[tuple[str, At], asyncio.Future[Shown]] = OrderedDict()
        self._restoring = asyncio.Semaphore(RESTORED_AT_ONCE)

    async def answer(self, rm: str, kind: str, request: Mapping[str, Any]) -> bytes:
        """Raises Refused."""
        at = self._at(request.get("at"))
        restored, queries = await self._state(rm, at)
        answer = queries.kinds[kind](request)
        at_ms, log_seq = restored.now_ms, restored.position.seq
        return msgspec.json.encode({**answer, "at_ms": at_ms, "log_seq": log_seq})

    async def span(self, rm: str) -> dict[str, Any]:
        """The first and the last commit of the archive, and their times. Raises Refused."""
        with _refusals(rm):
            past = await Past.open(self._store, rm)
            since_ms, until_ms = await past.span()
            return {"rm": rm, "since_ms": since_ms, "until_ms": until_ms, "first_seq": past.first_seq,
                    "last_seq": past.last_seq}  # fmt: skip

    def _at(self, given: object) -> At:
        if type(given) is int:
            return At(seq=given)
        if not isinstance(given, str):
            raise Refused(f"at is {shown(given)}, expected a time, or the sequence of a commit")
        try:
            return at_of(given, self._now())
        except ValueError as error:
            raise Refused(f"at: {error}") from None

    async def _state(self, rm: str, at: At) -> Shown:
        state = self._states.pop((rm, at), None)
        if state is None:
            state = asyncio.ensure_future(self._restored(rm, at))
        self._states[rm, at] = state
        while len(self._states) > STATES_KEPT:
            self._states.popitem(last=False)
        try:
            return await asyncio.shield(state)
        except Refused:
            if self._states.get((rm, at)) is state:
                del self._states[rm, at]
            raise

    async def _restored(self, rm: str, at: At) -> Shown:
        async with self._restoring:
            with _refusals(rm):
                restored = await (await Past.open(self._store, rm)).restore(at)
            return restored, Queries(restored.core)


@contextmanager
def _refusals(rm: str) -> Iterator[None]:
    try:
        yield
    except NoPast as error:
        raise Refused(str(error), NOT_FOUND) from None
    except StoreFailed as error:
        raise Refused(f"the archive is not reached: {error}", UNAVAILABLE) from None
    except (Damaged, HistoryChanged) as error:
        raise Refused(f"the archive of {rm!r} is damaged: {error}; `remuda archive verify` says where") from None
