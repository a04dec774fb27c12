"""The scheduler's questions to one RM that is connected by a conversation: from the bus to the RM, and back.

A question that the RM has not answered before its conversation ends is refused, as one that it does not answer in time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_grpc import limits
from remuda_grpc.status import invalid
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.registration import OUTAGE, REFUSED

Send = Callable[[rm_pb2.ToResourceManager], Awaitable[None]]

_ARGUMENTS: Final[dict[str, Any]] = {
    "predicates": si.PredicatesArgs,
    "preemption_predicates": si.PreemptionPredicatesArgs,
    "batch_predicates": predicates_pb2.BatchPredicatesRequest,
    "state_dump": rm_pb2.StateDumpRequest,
}


class Questions:
    """`send`: sends a message to the RM."""

    def __init__(self, bus: Bus, rm_id: str, send: Send) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[str, asyncio.Future[rm_pb2.Answer]]] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Inside of the block this process answers for the RM."""
        async with AsyncExitStack() as stack:
            for kind in subjects.RM_ANSWERS:
                # An RM that does not answer takes no places of other RMs.
                serving = await self._bus.serve(
                    subjects.question(self._rm_id, kind), self._asker(kind), kind, at_once=limits.OPEN_QUESTIONS
                )
                stack.push_async_callback(serving.close)
            try:
                yield
            finally:
                for _, answer in self._open.values():
                    answer.cancel()

    def answered(self, answer: rm_pb2.Answer) -> None:
        """Answers to questions that are no longer open are ignored. Raises Failure INVALID_ARGUMENT when the answer is
        one to another kind of question."""
        kind, waiting = self._open.get(answer.number, ("", None))
        if waiting is None or waiting.done():
            return
        given = answer.WhichOneof("answer") or "predicates"
        if given != kind and not answer.refusal:
            raise invalid("answer", f"answer {answer.number}: {given}, expected {kind}")
        waiting.set_result(answer)

    def _asker(self, kind: str) -> Callable[[Message], Awaitable[bytes]]:
        async def ask(message: Message) -> bytes:
            if len(self._open) >= limits.OPEN_QUESTIONS:
                raise Refused(f"{limits.OPEN_QUESTIONS} questions to {self._rm_id!r} have no answer yet", OUTAGE)
            number = next(self._numbers)
            waiting: asyncio.Future[rm_pb2.Answer] = asyncio.get_running_loop().create_future()
            self._open[number] = kind, waiting
            try:
                async with asyncio.timeout(limits.ANSWER_WITHIN_S):
                    await self._send(rm_pb2.ToResourceManager(question=_question(number, kind, message)))
                    answer = await waiting
            except TimeoutError:
                raise Refused(f"the RM has not answered within {limits.ANSWER_WITHIN_S:g} s", REFUSED) from None
            except asyncio.CancelledError:
                if waiting.cancelled():
                    raise Refused("the RM has ended its conversation", REFUSED) from None
                raise
            finally:
                del self._open[number]
            if answer.refusal:
                raise Refused(answer.refusal[: limits.REASON_CHARACTERS], REFUSED)
            return _reply(kind, answer)

        return ask


def _question(number: int, kind: str, message: Message) -> rm_pb2.Question:
    question = rm_pb2.Question(
        number=number,
        application_id=message.headers.get(subjects.APPLICATION, ""),
        partition=message.headers.get(subjects.PARTITION, ""),
    )
    getattr(question, kind).CopyFrom(_ARGUMENTS[kind].FromString(message.payload))
    return question


def _reply(kind: str, answer: rm_pb2.Answer) -> bytes:
    if kind == "predicates":
        return b""
    return answer.state_dump.encode() if kind == "state_dump" else getattr(answer, kind).SerializeToString()
