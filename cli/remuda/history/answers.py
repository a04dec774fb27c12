"""Answers queries about RMs from their past: those of cores, with the field `at` (docs/queries.md)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from remuda_archive.segments import Damaged
from remuda_archive.store import Store, StoreFailed
from remuda_bus.bus import HistoryChanged, Refused
from remuda_bus.status_codes import NOT_FOUND, UNAVAILABLE
from remuda_core.shell.queries import Queries
from remuda_operations.queries.fields import OF_PAST, expect_fields
from remuda_proto.bounds import shown

from .past import At, NoPast, Past, Restored
from .when import at_of

# States that are kept for the next page or the next command: a page of rows is followed by others.
STATES_KEPT = 2


class Answers:
    """From one archive. States are restored one at a time."""

    def __init__(self, store: Store, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._now = now
        self._states: OrderedDict[tuple[str, At], tuple[Restored, Queries]] = OrderedDict()
        self._restoring = asyncio.Lock()

    async def answer(self, rm: str, kind: str, request: Mapping[str, Any]) -> bytes:
        """Raises Refused."""
        expect_fields(request, OF_PAST[kind])
        at = self._at(request.get("at"))
        restored, queries = await self._state(rm, at)
        answer = queries.kinds[kind](request)
        at_ms, log_seq = restored.now_ms, restored.position.seq
        return msgspec.json.encode({**answer, "at_ms": at_ms, "log_seq": log_seq})

    def _at(self, given: object) -> At:
        if type(given) is int:
            return At(seq=given)
        if not isinstance(given, str):
            raise Refused(f"at is {shown(given)}, expected a time, or the sequence of a commit")
        try:
            return at_of(given, self._now())
        except ValueError as error:
            raise Refused(f"at: {error}") from None

    async def _state(self, rm: str, at: At) -> tuple[Restored, Queries]:
        async with self._restoring:
            found = self._states.pop((rm, at), None)
            if found is None:
                restored = await self._restored(rm, at)
                found = restored, Queries(restored.core)
            self._states[rm, at] = found
            if len(self._states) > STATES_KEPT:
                self._states.popitem(last=False)
            return found

    async def _restored(self, rm: str, at: At) -> Restored:
        try:
            return await (await Past.open(self._store, rm)).restore(at)
        except NoPast as error:
            raise Refused(str(error), NOT_FOUND) from None
        except StoreFailed as error:
            raise Refused(f"the archive is not reached: {error}", UNAVAILABLE) from None
        except (Damaged, HistoryChanged) as error:
            raise Refused(f"the archive of {rm!r} is damaged: {error}; `remuda archive verify` says where") from None
