"""Requests of RMs to register and to deregister, and of operators to act, that wait for the core's decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from remuda_bus.bus import Refused
from remuda_proto.remuda.v1 import log_pb2


class PendingAnswer:
    """Receives the decisions about one RM from the moment that it is made: a decision that comes before the request
    knows its correlation ID is not lost, and one decision answers every request that waits for it."""

    def __init__(self) -> None:
        self._decisions: dict[str, log_pb2.Decision] = {}
        self._failure: Refused | None = None
        self._changed = asyncio.Event()

    def receive(self, decision: log_pb2.Decision) -> None:
        self._decisions[decision.correlation_id] = decision
        self._changed.set()

    def fail(self, failure: Refused) -> None:
        self._failure = failure
        self._changed.set()

    async def decision(self, correlation_id: str) -> log_pb2.Decision:
        """Returns the core's decision when it comes. Raises Refused when rmproxy stops working for the RM before."""
        while True:
            if (decision := self._decisions.get(correlation_id)) is not None:
                return decision
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()


class PendingAnswers:
    def __init__(self) -> None:
        self._of_rm: dict[str, list[PendingAnswer]] = {}

    @contextmanager
    def expect(self, rm_id: str) -> Iterator[PendingAnswer]:
        answer = PendingAnswer()
        self._of_rm.setdefault(rm_id, []).append(answer)
        try:
            yield answer
        finally:
            self._of_rm[rm_id].remove(answer)
            if not self._of_rm[rm_id]:
                del self._of_rm[rm_id]

    def resolve(self, rm_id: str, decision: log_pb2.Decision) -> None:
        for answer in self._of_rm.get(rm_id, ()):
            answer.receive(decision)

    def fail(self, rm_id: str, failure: Refused) -> None:
        for answer in self._of_rm.get(rm_id, ()):
            answer.fail(failure)
