import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogEntry, Position
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.limits import ANSWERS_PER_MESSAGE
from remuda_rmproxy.outbound.callbacks import Question, callbacks_of
from remuda_rmproxy.outbound.predicates import PredicateClient

PARTITION = "[rm-1]default"
NOW_MS = 1_000_000


def question(number: int, node_id: str = "n1", within_ms: int = 5_000) -> log_pb2.PredicateAsked:
    return log_pb2.PredicateAsked(
        partition=PARTITION, application_id="app-1", allocation_key=f"k{number}", node_id=node_id, kind="place",
        question=number, answer_by_ms=NOW_MS + within_ms,
    )  # fmt: skip


def entry(*questions: log_pb2.PredicateAsked, now_ms: int = NOW_MS) -> LogEntry:
    facts = [log_pb2.Fact(predicate_asked=one) for one in questions]
    decision = log_pb2.Decision(command="Schedule", facts=facts)
    return LogEntry(7, log_pb2.Commit(now_ms=now_ms, decisions=[decision]), Position(), {})


@asynccontextmanager
async def asking(bus: MemoryBus) -> AsyncIterator[PredicateClient]:
    async with asyncio.TaskGroup() as group:
        halts = Halts(bus, "test", lambda: 0)
        predicate_client = PredicateClient(bus, "rm-1", group, Faults(bus, halts, "test", lambda: 0))
        running = group.create_task(predicate_client.run())
        yield predicate_client
        running.cancel()


async def answers(bus: MemoryBus, count: int) -> list[inbox_pb2.PredicateAnswer]:
    reader = await bus.read(subjects.INBOX.name, subjects.inbox("rm-1"))
    found: list[inbox_pb2.PredicateAnswer] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            for message in await reader.batch():
                batch = inbox_pb2.Command.FromString(message.payload).predicate_answers.answers
                assert len(batch) <= ANSWERS_PER_MESSAGE
                found.extend(batch)
    return found


async def test_a_question_and_its_answers() -> None:
    bus = MemoryBus()
    asked = []

    async def rm(message: Message) -> bytes:
        args = si.PredicatesArgs.FromString(message.payload)
        asked.append((args.allocationKey, args.nodeID, args.allocate, dict(message.headers)))
        if args.nodeID == "n2":
            raise Refused("no disk", 409)
        return b""

    await bus.serve(subjects.question("rm-1", "predicates"), rm, "predicates")
    about = {"Remuda-Application": "app-1", "Remuda-Partition": "default"}
    one = entry(question(1), question(2, "n2"))
    async with asking(bus) as predicate_client:
        predicate_client.ask([one], [(one, question(1)), (one, question(2, "n2"))])
        yes, no = sorted(await answers(bus, 2), key=lambda answer: answer.question)
    assert asked == [("k1", "n1", True, about), ("k2", "n2", True, about)]
    assert (yes.partition, yes.question, yes.success, yes.reason) == (PARTITION, 1, True, "")
    assert (no.question, no.success, no.reason) == (2, False, "no disk")


async def test_preemption_has_a_subject_and_a_reply_of_its_own() -> None:
    bus = MemoryBus()
    asked = []

    async def rm(message: Message) -> bytes:
        args = si.PreemptionPredicatesArgs.FromString(message.payload)
        asked.append((args.allocationKey, args.nodeID, list(args.preemptAllocationKeys), args.startIndex))
        if args.nodeID == "n3":
            return b"\xff"
        return si.PreemptionPredicatesResponse(success=args.nodeID == "n1", index=1).SerializeToString()

    await bus.serve(subjects.question("rm-1", "preemption_predicates"), rm, "preemption_predicates")
    questions = [
        log_pb2.PreemptionAsked(
            partition=PARTITION, application_id="app-1", allocation_key="k", node_id=f"n{number}",
            uuids=["u-1", "u-2"], victim_keys=["a", "b"], question=number, answer_by_ms=NOW_MS + 5_000,
        )
        for number in (1, 2, 3)
    ]  # fmt: skip
    one = entry()
    async with asking(bus) as predicate_client:
        predicate_client.ask([one], [(one, each) for each in questions])
        yes, no, unclear = sorted(await answers(bus, 3), key=lambda answer: answer.question)
    assert asked == [("k", f"n{number}", ["a", "b"], 1) for number in (1, 2, 3)]
    assert (yes.success, no.success, unclear.success) == (True, False, False)
    assert no.reason == "the RM says it would not start there even then"
    assert "not a PreemptionPredicatesResponse" in unclear.reason


async def test_many_answers_travel_together() -> None:
    bus = MemoryBus()

    async def rm(_: Message) -> bytes:
        return b""

    await bus.serve(subjects.question("rm-1", "predicates"), rm, "predicates")
    questions = [question(number) for number in range(1, 1_200)]
    one = entry(*questions)
    async with asking(bus) as predicate_client:
        predicate_client.ask([one], [(one, each) for each in questions])
        found = await answers(bus, len(questions))
    assert {answer.question for answer in found} == set(range(1, 1_200))


async def test_answers_with_long_reasons_fit_into_messages() -> None:
    """500 characters of four bytes each: 500 such answers are more than a message takes on many servers."""
    bus = MemoryBus(max_payload=1_000_000)

    async def refuses(_: Message) -> bytes:
        raise Refused("\N{GRINNING FACE}" * 1_000)

    await bus.serve(subjects.question("rm-1", "predicates"), refuses, "predicates")
    questions = [question(number) for number in range(1, 1_200)]
    one = entry(*questions)
    async with asking(bus) as asker:
        asker._answered.set = lambda: None  # type: ignore[method-assign] # all of them are there before any is forwarded
        asker.ask([one], [(one, each) for each in questions])
        async with asyncio.timeout(5):
            while len(asker._answers) < len(questions):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        del asker._answered.set
        asker._answered.set()
        found = await answers(bus, len(questions))
    assert {answer.question for answer in found} == set(range(1, 1_200))


async def test_a_question_waits_for_an_rm_that_is_about_to_connect() -> None:
    bus, one = MemoryBus(), entry(question(1))

    async def rm(_: Message) -> bytes:
        return b""

    async with asking(bus) as predicate_client:
        predicate_client.ask([one], [(one, question(1))])
        await asyncio.sleep(0.05)
        await bus.serve(subjects.question("rm-1", "predicates"), rm, "predicates")
        assert (await answers(bus, 1))[0].success


async def test_a_silent_rm_has_no_answer() -> None:
    """It is the core that takes the question back."""
    bus, one = MemoryBus(), entry(question(1, within_ms=50))

    async def rm(_: Message) -> bytes:
        await asyncio.sleep(10)
        return b""

    await bus.serve(subjects.question("rm-1", "predicates"), rm, "predicates")
    async with asking(bus) as predicate_client:
        predicate_client.ask([one], [(one, question(1, within_ms=50))])
        await asyncio.sleep(0.1)
    assert await bus.last_message(subjects.INBOX.name, subjects.inbox("rm-1")) is None


async def test_a_question_past_its_deadline_is_not_asked() -> None:
    bus, asked = MemoryBus(), []

    async def rm(message: Message) -> bytes:
        asked.append(si.PredicatesArgs.FromString(message.payload).allocationKey)
        return b""

    await bus.serve(subjects.question("rm-1", "predicates"), rm, "predicates")
    old, new = entry(question(1)), entry(now_ms=NOW_MS + 5_000)
    async with asking(bus) as predicate_client:
        predicate_client.ask([old, new], [(old, question(1)), (new, question(2, within_ms=10_000))])
        await answers(bus, 1)
    assert asked == ["k2"]


def test_questions_are_no_callbacks_and_are_found_behind_any_position() -> None:
    commit = entry(question(1), question(2)).commit
    found: list[Question] = []
    assert not list(callbacks_of(commit, "rm-1", 1_000_000, 5, found))
    assert [one.question for one in found] == [1, 2]


async def test_an_exception_at_one_answer_ends_neither_the_asking_nor_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = MemoryBus()
    ask = bus.request

    async def broken(subject: str, payload: bytes = b"", headers: Any = None, timeout_s: float = 5.0) -> Message:
        if si.PredicatesArgs.FromString(payload).allocationKey == "k1":
            raise ValueError("Nats-Service-Error-Code: x")
        return await ask(subject, payload, headers, timeout_s)

    async def refuses(message: Message) -> bytes:
        raise Refused("\udcff no UTF-8")

    monkeypatch.setattr(bus, "request", broken)
    await bus.serve(subjects.question("rm-1", "predicates"), refuses, "rm")
    async with asking(bus) as predicate_client:
        for number in (1, 2):
            one = entry(question(number))
            predicate_client.ask([one], [(one, question(number))])
        (answer,) = await answers(bus, 1)
        assert (answer.question, answer.reason) == (2, "? no UTF-8")
        assert await bus.get(subjects.FAULTS.name, subjects.fault_key("rm-1", "questions")) is not None
        assert await bus.get(subjects.HALTS.name, "rm-1") is None
    await bus.close()


async def test_a_silent_rm_takes_a_bounded_number_of_tasks_and_is_asked_nothing_void(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process asks all RMs. What the core withdraws meanwhile is not sent when there is room at last."""
    bus, asked, silent = MemoryBus(), Counter[str](), asyncio.Event()

    async def rm(message: Message) -> bytes:
        asked[si.PredicatesArgs.FromString(message.payload).allocationKey] += 1
        await silent.wait()
        return b""

    await bus.serve(subjects.question("rm-1", "predicates"), rm, "predicates")
    async with asking(bus) as predicate_client:
        before = len(asyncio.all_tasks())
        batches = [
            [(entry(), question(1_000 * batch + number, within_ms=100)) for number in range(1_000)]
            for batch in range(10)
        ]
        loop = asyncio.get_running_loop()
        now = loop.time()
        with monkeypatch.context() as one_moment:  # all questions have the same deadline
            one_moment.setattr(loop, "time", lambda: now)
            for batch in batches:
                predicate_client.ask([entry()], batch)
        tasks = len(asyncio.all_tasks()) - before
        assert tasks <= limits.QUESTIONS_AT_ONCE
        async with asyncio.timeout(5):
            # Those that the RM never ends stay.
            while len(asyncio.all_tasks()) > before + len(asked):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        assert len(asked) <= limits.QUESTIONS_AT_ONCE
        silent.set()
        last = question(99_999)
        predicate_client.ask([entry()], [(entry(), last)])
        assert [answer.question for answer in await answers(bus, 1)] == [99_999]
