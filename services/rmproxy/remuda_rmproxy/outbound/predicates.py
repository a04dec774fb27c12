"""Asks an RM the questions of the core about placements, and forwards the answers to the RM's inbox (000, Predicates).

No question is stored here: the core stores its open questions, and withdraws one that is not answered in time. After a
restart a question may be asked twice, and an answer may come too late. Both are harmless.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers, Message, Refused
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_proto.bounds import ID_BYTES
from remuda_proto.guests import is_guest
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2, predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogEntry
from remuda_replication.rms.faults import QUESTIONS, Faults
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callbacks import Question
from remuda_rmproxy.records.partitions import PlainNames

log = structlog.get_logger()

NO_VERDICT = "the RM gave no verdict"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A question that waits until it can be asked, up to `deadline`, in seconds of the loop's clock."""

    question: Question
    headers: Headers
    deadline: float


class PredicateClient:
    """Asks one RM the core's questions.

    Its tasks run in `group`, at most QUESTIONS_AT_ONCE, whether the RM answers or not. An exception at one question is
    recorded as a fault, and the core withdraws that question.
    """

    def __init__(self, bus: Bus, rm_id: str, group: asyncio.TaskGroup, faults: Faults) -> None:
        self._faults = faults
        self._bus = bus
        self._rm_id = rm_id
        self._group = group
        self._waiting: deque[_Waiting] = deque(maxlen=limits.QUESTIONS_WAITING)  # the oldest end first
        self._askers = 0
        self._answers: list[inbox_pb2.PredicateAnswer] = []
        self._answered = asyncio.Event()

    def ask(self, entries: Sequence[LogEntry], questions: Sequence[tuple[LogEntry, Question]]) -> None:
        """Asks the questions among `entries`, which were read together. `entries`: all that were read together. A
        question whose deadline is before the last of them was answered or withdrawn long ago.
        """
        now = asyncio.get_running_loop().time()
        for entry, question in questions:
            timeout_s = (question.answer_by_ms - entries[-1].commit.now_ms) / 1_000
            if timeout_s > 0:
                self._waiting.append(_Waiting(question, dict(entry.headers), now + timeout_s))
        for _ in range(min(len(self._waiting), limits.QUESTIONS_AT_ONCE - self._askers)):
            self._askers += 1
            self._group.create_task(self._ask_one_by_one())

    async def run(self) -> None:
        """Runs until cancelled: forwards answers. Those that arrive during an append go together in the next one."""
        while True:
            await self._answered.wait()
            batch = self._take_batch()
            command = inbox_pb2.Command(predicate_answers=inbox_pb2.PredicateAnswers(answers=batch))
            try:
                await self._bus.append(subjects.inbox(self._rm_id), command.SerializeToString())
            except BusError as error:
                log.warning("answers of the RM are lost, the core asks again", rm=self._rm_id, error=str(error))

    def _take_batch(self) -> list[inbox_pb2.PredicateAnswer]:
        """As many answers as fit into a message, but at least one."""
        size, count = 0, 0
        for answer in self._answers[: limits.ANSWERS_PER_MESSAGE]:
            size += answer.ByteSize() + limits.COMMAND_OVERHEAD_BYTES
            if count and size > self._bus.max_payload - HEADER_ROOM_BYTES:
                break
            count += 1
        batch, self._answers = self._answers[:count], self._answers[count:]
        if not self._answers:
            self._answered.clear()
        return batch

    async def _ask_one_by_one(self) -> None:
        """Ask what waits, until nothing does."""
        try:
            while self._waiting:
                one = self._waiting.popleft()
                try:
                    answer = await self._answer_to(one.question, one.headers, one.deadline)
                except Exception as fault:  # noqa: BLE001 - any exception here is a fault at a question to this RM alone
                    await self._faults.record(self._rm_id, QUESTIONS, one.question.question, fault)
                    continue
                if answer is not None:
                    self._answers.append(answer)
                    self._answered.set()
        finally:
            self._askers -= 1

    async def _answer_to(
        self, question: Question, headers: Headers, deadline: float
    ) -> inbox_pb2.PredicateAnswer | None:
        """None: the RM does not answer in time. The RM is not asked about guests, which it does not know."""
        if is_guest(question.application_id):
            return answer_for_guest(question)
        subject, payload = request_for(question, self._rm_id)
        request_headers = {**question_headers(question, self._rm_id), **trace_headers(headers)}
        now = asyncio.get_running_loop().time
        while (left_s := deadline - now()) > 0:
            try:
                reply = await self._bus.request(subject, payload, request_headers, left_s)
            except Refused as refusal:
                return answer_of(question, header_text(refusal.reason) or "the RM gave no reason")
            except BusError:  # the RM may be about to connect
                await asyncio.sleep(min(limits.QUESTION_RETRY.first_pause_s, deadline - now()))
            else:
                if is_batch(question):
                    return batch_answer(question, reply.payload)
                return answer_of(question, refusal_in(reply, question), spared_in(reply, question))
        return None


def answer_of(question: Question, refusal: str, spared: Sequence[str] = ()) -> inbox_pb2.PredicateAnswer:
    """Returns the answer for the core. `refusal`: why the RM refuses; "": the RM agrees. `spared`: victims that must
    not go for now."""
    return inbox_pb2.PredicateAnswer(
        partition=question.partition,
        question=question.question,
        success=not refusal,
        reason=refusal[: limits.PREDICATE_REASON_CHARACTERS],
        of_class=isinstance(question, log_pb2.PredicatesAsked),
        spared=spared,
    )


def answer_for_guest(question: Question) -> inbox_pb2.PredicateAnswer:
    """Returns the answer to a question about a guest's ask: yes, because the core's own rules decide."""
    answer = answer_of(question, "")
    if isinstance(question, log_pb2.PredicatesAsked):
        answer.verdicts.extend(predicates_pb2.NodeVerdict(node_id=one, accepted=True) for one in question.node_ids)
    return answer


def request_for(question: Question, rm_id: str) -> tuple[str, bytes]:
    """Returns the subject and the payload of the question."""
    if is_batch(question):
        return subjects.question(rm_id, "batch_predicates"), batch_request(question, rm_id).SerializeToString()
    if isinstance(question, log_pb2.PredicateAsked | log_pb2.ReplacementAsked):
        may = si.PredicatesArgs(allocationKey=question.allocation_key, nodeID=question.node_id, allocate=True)
        return subjects.question(rm_id, "predicates"), may.SerializeToString()
    assert isinstance(question, log_pb2.PreemptionAsked), "a question about a class has one"
    victims = [key for key in question.victim_keys if not is_guest(key)]  # the RM does not know guests
    would = si.PreemptionPredicatesArgs(
        allocationKey=question.allocation_key,
        nodeID=question.node_id,
        preemptAllocationKeys=victims,
        startIndex=max(0, len(victims) - 1),  # all of them are needed
    )
    return subjects.question(rm_id, "preemption_predicates"), would.SerializeToString()


def refusal_in(reply: Message, question: Question) -> str:
    """Returns why the RM refuses; "": the RM agrees. A reply to PredicatesArgs has no content."""
    if not isinstance(question, log_pb2.PreemptionAsked):
        return ""
    try:
        response = si.PreemptionPredicatesResponse.FromString(reply.payload)
    except DecodeError as error:
        return f"the answer is not a PreemptionPredicatesResponse: {error}"
    if response.sparedAllocationKeys and not response.success:
        return "the RM spares some of the victims"
    return "" if response.success else "the RM says it would not start there even then"


def spared_in(reply: Message, question: Question) -> list[str]:
    """Returns the keys of the allocations that the RM spares, as many as are read."""
    if not isinstance(question, log_pb2.PreemptionAsked):
        return []
    try:
        response = si.PreemptionPredicatesResponse.FromString(reply.payload)
    except DecodeError:
        return []  # a refusal
    keys = (key for key in response.sparedAllocationKeys if len(key.encode()) <= ID_BYTES)
    return list(dict.fromkeys(islice(keys, limits.SPARED_KEYS)))


def header_text(header: str) -> str:
    """Returns the text of a header as protobuf accepts it: a header may be no UTF-8."""
    return header[: limits.PREDICATE_REASON_CHARACTERS].encode(errors="replace").decode()


def question_headers(question: Question, rm_id: str) -> dict[str, str]:
    """Returns the headers with the application: the message does not name it, and the key of an ask is unique only
    within it.
    """
    return {
        subjects.APPLICATION: question.application_id,
        subjects.PARTITION: PlainNames(rm_id)[question.partition],
    }


def trace_headers(headers: Headers) -> dict[str, str]:
    return {subjects.TRACEPARENT: headers[subjects.TRACEPARENT]} if subjects.TRACEPARENT in headers else {}


def is_batch(question: Question) -> bool:
    """Returns whether the RM of this question answers in batches."""
    return not isinstance(question, log_pb2.PreemptionAsked) and bool(question.predicate_class)


def batch_request(question: Question, rm_id: str) -> predicates_pb2.BatchPredicatesRequest:
    """Returns the message to the RM (remuda.v1, predicates.proto): about many nodes for a class of asks, or about the
    one node of a placement that cannot wait, such as the placement on a reserved node.
    """
    assert not isinstance(question, log_pb2.PreemptionAsked), "there is no batch of preemptions"
    return predicates_pb2.BatchPredicatesRequest(
        rm_id=rm_id,
        partition=PlainNames(rm_id)[question.partition],
        predicate_class=question.predicate_class,
        application_id=question.application_id,
        allocation_key=question.allocation_key,
        resource=question.resource,
        tags=question.tags,
        node_ids=_nodes_of(question),
    )


def batch_answer(question: Question, payload: bytes) -> inbox_pb2.PredicateAnswer:
    """Returns the answer for the core. A reply that cannot be read, or has more verdicts than the question has nodes,
    refuses all nodes. The core ignores verdicts about other nodes.
    """
    answer = inbox_pb2.PredicateAnswer(partition=question.partition, question=question.question)
    response, problem = predicates_pb2.BatchPredicatesResponse(), ""
    if len(payload) > limits.BATCH_ANSWER_BYTES:
        problem = f"the answer has {len(payload)} bytes, expected at most {limits.BATCH_ANSWER_BYTES}"
    else:
        try:
            response.ParseFromString(payload)
        except DecodeError as error:
            problem = f"the answer is not a BatchPredicatesResponse: {error}"
    nodes = _nodes_of(question)
    if len(response.verdicts) > len(nodes):  # the core, which serves other RMs too, would go through all of them
        problem = f"the answer has {len(response.verdicts)} verdicts, expected at most {len(nodes)}"
        response.Clear()
    if isinstance(question, log_pb2.PredicatesAsked):
        answer.of_class = True
        answer.verdicts.extend(response.verdicts)
        answer.reason = problem
    else:
        verdict = next((given for given in response.verdicts if given.node_id in nodes), None)
        answer.success = verdict is not None and verdict.accepted
        if not answer.success:
            reason = problem or NO_VERDICT if verdict is None else verdict.reason
            answer.reason = reason[: limits.PREDICATE_REASON_CHARACTERS]
    return answer


def _nodes_of(question: Question) -> list[str]:
    return list(question.node_ids) if isinstance(question, log_pb2.PredicatesAsked) else [question.node_id]
