"""An RM answers the scheduler's questions wrongly, late or never."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus import subjects
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


async def has_questions(rm: Hostile, *kinds: str) -> None:
    await rm.register(extra=dict.fromkeys(kinds, "true"))
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
        await has_questions(rm, "predicates", "preemption_predicates")


async def test_answers_that_never_come(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.client.subscribe(subjects.question(rm.rm_id, "predicates"))
        await has_questions(rm, "predicates")
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
