"""An RM answers the scheduler's questions wrongly, late or never."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from nats.aio.msg import Msg

from remuda_bus import subjects
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import application, ask, node
from tests.tenants.hostile import Hostile

from .ground import Ground

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE, ERROR = subjects.SERVICE_ERROR_CODE, subjects.SERVICE_ERROR
ANSWERS = {
    "a code that is no number": (b"", {CODE: "x", ERROR: "no"}),
    "an empty code": (b"", {CODE: "", ERROR: "no"}),
    "a code of many digits": (b"", {CODE: "9" * 5_000, ERROR: "no"}),
    "a code of other digits": (b"", {CODE: "٤٠٩", ERROR: "no"}),
    "a code without a reason": (b"", {CODE: "409"}),
    "a long reason": (b"", {CODE: "409", ERROR: "no" * 20_000}),
    "no protobuf": (b"\xff" * 100, None),
    "a large reply": (b"\x00" * 1_000_000, None),
}


def verdicts(*node_ids: str, reason: str = "", holds_ms: int = 0) -> bytes:
    given = [predicates_pb2.NodeVerdict(node_id=one, reason=reason, holds_ms=holds_ms) for one in node_ids]
    return predicates_pb2.BatchPredicatesResponse(verdicts=given).SerializeToString()


BATCH_ANSWERS = {
    **{name: ANSWERS[name] for name in ("a code of many digits", "no protobuf", "a large reply")},
    "no verdict": (b"", None),
    "verdicts about nodes of others": (verdicts(*(f"n-{number}" for number in range(40_000))), None),
    "the same verdict again and again": (verdicts(*["n1", "n2"] * 50_000), None),
    "long reasons": (verdicts("n1", "n2", reason="no" * 200_000), None),
    "verdicts that hold for a moment": (verdicts("n1", "n2", holds_ms=-(2**63)), None),
    "verdicts that hold for ever": (verdicts("n1", "n2", holds_ms=2**63 - 1), None),
}
LATE_S = 5.5  # rmproxy waits for 5 s


async def has_questions(rm: Hostile, declared: Mapping[str, str]) -> None:
    await rm.register(extra=declared)
    await rm.nodes(node("n1", vcore=100), node("n2", vcore=100))
    await rm.submit(application("app", queue="root.a", user="ann"))
    await rm.asks(*(ask("app", f"k{number}", vcore=1) for number in range(50)))


@pytest.mark.parametrize("answer", ANSWERS)
async def test_answers_to_questions(ground: Ground, answer: str) -> None:
    async with ground.attack() as rm:
        payload, headers = ANSWERS[answer]
        for subject in (
            subjects.question(rm.rm_id, "predicates"),
            subjects.question(rm.rm_id, "preemption_predicates"),
        ):
            await rm.answer(subject, payload, headers)
        await has_questions(rm, {"predicates": "true", "preemption_predicates": "true"})


@pytest.mark.parametrize("answer", BATCH_ANSWERS)
async def test_answers_to_questions_in_batches(ground: Ground, answer: str) -> None:
    async with ground.attack() as rm:
        await rm.answer(subjects.question(rm.rm_id, "batch_predicates"), *BATCH_ANSWERS[answer])
        await has_questions(rm, {"predicates": "batch"})


async def test_verdicts_that_come_late(ground: Ground) -> None:
    """After the question has ended; by then the same nodes may be in question again."""
    async with ground.attack() as rm:
        asked: list[Msg] = []

        async def keep(question: Msg) -> None:
            asked.append(question)

        await rm.client.subscribe(subjects.question(rm.rm_id, "batch_predicates"), cb=keep)
        await has_questions(rm, {"predicates": "batch"})
        await asyncio.sleep(LATE_S)
        assert asked
        for question in asked:
            for _ in range(100):
                await rm.client.publish(question.reply, verdicts("n1", "n2"))


async def test_answers_that_never_come(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.client.subscribe(subjects.question(rm.rm_id, "predicates"))
        await has_questions(rm, {"predicates": "true"})
        await rm.asks(*(ask("app", f"more-{number}", vcore=1) for number in range(5_000)))
        await asyncio.sleep(2)


async def test_callbacks_that_are_never_acknowledged(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register()
        for first in range(0, 20_000, 1_000):  # each refusal is a callback that is never acknowledged
            asks = [si.AllocationAsk(applicationID="none", allocationKey=f"k{first + n}") for n in range(1_000)]
            await rm.asks(*asks)


async def test_registrations_all_the_time(ground: Ground) -> None:
    async with ground.attack() as rm:
        for _ in range(10):
            await asyncio.gather(*(rm.register(extra={"resync": "report"}) for _ in range(10)))


async def test_a_flood_of_heartbeats(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register(extra={"heartbeat.interval": "50ms"})
        for number in range(20_000):
            await rm.heartbeat(b"\xff" * 100, {subjects.REGISTRATION: str(number), subjects.LOG_SEQ: "9" * 100})
            if number % 1_000 == 0:
                await rm.client.flush()
