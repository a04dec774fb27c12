"""Questions the core has for an RM: asked by request/reply, and the answers handed to the inbox (000, Predicates).

Keeps nothing: the core holds what it has asked about, and takes it back where no answer comes in time. A question may
be asked twice after a restart, or an answer come too late; neither does harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers, Message, Refused
from remuda_bus.log import LogEntry
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.callbacks import Question
from remuda_rmproxy.partitions import PlainNames

log = structlog.get_logger()


class Asker:
    """The questions to one RM. Its tasks live in `group`."""

    def __init__(self, bus: Bus, rm_id: str, group: asyncio.TaskGroup) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._group = group
        self._slots = asyncio.Semaphore(limits.ASKED_AT_ONCE)
        self._answers: list[inbox_pb2.PredicateAnswer] = []
        self._answered = asyncio.Event()

    def ask(self, entries: Sequence[LogEntry], questions: Sequence[tuple[LogEntry, Question]]) -> None:
        """`entries`: all that was read at once. Questions whose time is up by the last of them were answered, or given
        up by the core, long ago."""
        for entry, question in questions:
            left_s = (question.answer_by_ms - entries[-1].commit.now_ms) / 1_000
            if left_s > 0:
                self._group.create_task(self._ask(question, dict(entry.headers), left_s))

    async def run(self) -> None:
        """For ever: hands in what was answered; what comes meanwhile goes together next time."""
        while True:
            await self._answered.wait()
            some, self._answers = self._answers[: limits.ANSWERS_IN_MESSAGE], self._answers[limits.ANSWERS_IN_MESSAGE :]
            if not self._answers:
                self._answered.clear()
            command = inbox_pb2.Command(predicate_answers=inbox_pb2.PredicateAnswers(answers=some))
            try:
                await self._bus.append(subjects.inbox(self._rm_id), command.SerializeToString())
            except BusError as error:
                log.warning("answers of the RM are lost, the core asks again", rm=self._rm_id, error=str(error))

    async def _ask(self, question: Question, headers: dict[str, str], left_s: float) -> None:
        async with self._slots:
            reason = await self._reason_against(question, headers, left_s)
        if reason is not None:
            self._answers.append(
                inbox_pb2.PredicateAnswer(
                    partition=question.partition,
                    question=question.question,
                    success=not reason,
                    reason=reason[: limits.MAX_REASON_CHARACTERS],
                )
            )
            self._answered.set()

    async def _reason_against(self, question: Question, headers: Headers, left_s: float) -> str | None:
        """Empty: nothing is against it. None: the RM has not answered."""
        subject, payload = request_of(question, self._rm_id)
        about = {**about_of(question, self._rm_id), **trace_of(headers)}
        until = asyncio.get_running_loop().time() + left_s
        while (left_s := until - asyncio.get_running_loop().time()) > 0:
            try:
                reply = await self._bus.request(subject, payload, about, left_s)
            except Refused as refusal:
                return refusal.reason or "the RM gave no reason"
            except BusError:
                await asyncio.sleep(min(limits.ASK_AGAIN_S, left_s))
            else:
                return reason_in(reply, question)
        return None


def request_of(question: Question, rm_id: str) -> tuple[str, bytes]:
    """Subject and payload."""
    if not isinstance(question, log_pb2.PreemptionAsked):
        may = si.PredicatesArgs(allocationKey=question.allocation_key, nodeID=question.node_id, allocate=True)
        return subjects.predicates(rm_id), may.SerializeToString()
    would = si.PreemptionPredicatesArgs(
        allocationKey=question.allocation_key,
        nodeID=question.node_id,
        preemptAllocationKeys=question.victim_keys,
        startIndex=len(question.victim_keys) - 1,  # it takes all of them
    )
    return subjects.preemption_predicates(rm_id), would.SerializeToString()


def reason_in(reply: Message, question: Question) -> str:
    """Empty: nothing is against it. An answer to PredicatesArgs has no content."""
    if not isinstance(question, log_pb2.PreemptionAsked):
        return ""
    try:
        response = si.PreemptionPredicatesResponse.FromString(reply.payload)
    except DecodeError as error:
        return f"the answer is not a PreemptionPredicatesResponse: {error}"
    return "" if response.success else "the RM says it would not start there even then"


def about_of(question: Question, rm_id: str) -> dict[str, str]:
    """The key of an ask need only be unique in its application, and the message does not name that."""
    return {
        subjects.APPLICATION: question.application_id,
        subjects.PARTITION: PlainNames(rm_id)[question.partition],
    }


def trace_of(headers: Headers) -> dict[str, str]:
    return {subjects.TRACEPARENT: headers[subjects.TRACEPARENT]} if subjects.TRACEPARENT in headers else {}
