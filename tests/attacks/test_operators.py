"""An operator asks for more than anyone could: RMs do not wait for it, and neither do other operators."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterable

import pytest

from remuda_bus import subjects
from remuda_config import load
from remuda_operations.operators import NO_GROUPS
from remuda_rmproxy.records.status_codes import OUTAGE
from remuda_sdk import application, ask, node
from tests.tenants.hostile import OPEN, Hostile, Refusal, Reply

from .ground import Ground

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATOR = "mallory"
ACTIONS = 5_000
PREVIEWS = 200
TEXTS = 40
AT_ONCE = 500
ANSWERED_WITHIN_S = 10.0
LARGE = "partitions: [{name: default, queues: [" + ", ".join(f"{{name: q{n}}}" for n in range(20_000)) + "]}]"
UNREADABLE = (b"\xff", b"[" * 100_000, b'{"action_id": "' + b"x" * 1_000_000 + b'"}', b'{"priority": 1e999}')


async def flood(rm: Hostile, requests: Iterable[tuple[str, bytes]]) -> None:
    """No client reads the replies."""
    inbox = rm.client.new_inbox()
    for number, (subject, payload) in enumerate(requests):
        await rm.client.publish(subject, payload, reply=inbox)
        if number % AT_ONCE == 0:
            await rm.client.flush()
    await rm.client.flush()


async def works(rm: Hostile) -> None:
    await rm.register()
    await rm.nodes(node("n1", vcore=100))
    await rm.submit(application("app", queue="root.a", user="ann"))
    await rm.asks(*(ask("app", f"k{number}", vcore=1) for number in range(1_000)))


async def another_operator_is_answered(rm: Hostile) -> None:
    """While the flood lasts, the service may be full and say so."""
    payload = json.dumps({"action_id": "one", "queue": "root.a"}).encode()
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        while True:
            answer = await rm.ask(subjects.administration("alice", NO_GROUPS, rm.rm_id, "hold_queue"), payload)
            if not isinstance(answer, Refusal) or answer.code != str(OUTAGE):
                break
            await asyncio.sleep(0.1)
    assert isinstance(answer, Reply) and json.loads(answer.payload)["outcome"] == "refused", answer


async def test_a_flood_of_actions(ground: Ground) -> None:
    async with ground.attack() as rm:
        await works(rm)
        hold = subjects.administration(OPERATOR, NO_GROUPS, rm.rm_id, "hold_queue")
        kill = subjects.administration(OPERATOR, NO_GROUPS, "no-such-rm", "kill_application")
        await flood(
            rm,
            (
                (kill if number % 5 == 0 else hold, json.dumps({"action_id": f"a{number}", "queue": "root.a"}).encode())
                for number in range(ACTIONS)
            ),
        )
        await another_operator_is_answered(rm)


async def test_actions_that_nobody_can_read(ground: Ground) -> None:
    async with ground.attack() as rm:
        await works(rm)
        every = [subjects.administration(OPERATOR, NO_GROUPS, rm.rm_id, action) for action in subjects.ACTIONS]
        await flood(rm, ((subject, payload) for _ in range(5) for subject in every for payload in UNREADABLE))
        await another_operator_is_answered(rm)


async def test_a_flood_of_previews(ground: Ground) -> None:
    async with ground.attack() as rm:
        await works(rm)
        proposals = [base64.b64encode(load(text).SerializeToString()).decode() for text in (OPEN, LARGE)]
        payloads = [json.dumps({"configuration": one, "passes": 20, "limit": 500}).encode() for one in proposals]
        subject = subjects.core_query(rm.rm_id, subjects.PREVIEW)
        await flood(rm, ((subject, payloads[number % 2]) for number in range(PREVIEWS)))
        await another_operator_is_answered(rm)


async def test_a_flood_of_configurations(ground: Ground) -> None:
    """The text is of a file that is not the system's, or of an operator who may not change it: it is read anyway."""
    async with ground.attack() as rm:
        await works(rm)
        payload = json.dumps({"text": LARGE}).encode()
        check = subjects.configuration_query("check")
        update = subjects.configuration_change(OPERATOR, NO_GROUPS, "update")
        await flood(rm, ((check if number % 2 else update, payload) for number in range(TEXTS)))
        await another_operator_is_answered(rm)
