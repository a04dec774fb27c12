"""Questions that cannot be answered, or only at great cost: those about other RMs are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from nats.aio.msg import Msg

from remuda_bus import subjects
from remuda_replication.rms.halts import Halts
from remuda_rmproxy.limits import QUESTIONS_AT_ONCE
from remuda_sdk import application, ask, node
from remuda_web.settings import WebSettings
from remuda_web.shell import serve as web_main
from tests.patience import PATIENCE
from tests.system.running import running
from tests.system.web_client import address_of
from tests.tenants import FAULTS
from tests.tenants.hostile import Hostile, Refusal, Reply

from .ground import Ground, ground

pytestmark = pytest.mark.asyncio(loop_scope="module")

OTHERS_WITHIN_S = 1.0 * PATIENCE  # an answer about a side RM
AT_ONCE = 300
ATTACKED_S = 4.0
FOREIGN = 5_000
SILENT_S = 11.0  # two generations of questions end meanwhile
OF_EVE = "partitions: [{name: default, queues: [{name: a, submitacl: zoe}, {name: b, submitacl: eve}]}]"
TOKEN = "eve-has-a-token-of-her-own"


async def others_are_answered(ground: Ground, rm: Hostile) -> None:
    """Both the followers and the leaders of the side RMs, for a while."""
    until = time.monotonic() + ATTACKED_S
    while time.monotonic() < until:
        for side in ground.sides:
            for subject in (subjects.core_query(side.rm_id, "stats"), subjects.leader_query(side.rm_id, "stats")):
                began = time.monotonic()
                answer = await rm.ask(subject, within_s=OTHERS_WITHIN_S)
                assert isinstance(answer, Reply), f"{subject}: {answer} after {time.monotonic() - began:.2f} s"


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        while not await holds():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.1)


async def answered(rm: Hostile, subject: str, **request: str) -> bool:
    return isinstance(await rm.ask(subject, json.dumps(request).encode(), within_s=5), Reply)


async def refused(rm: Hostile, subject: str) -> bool:
    return isinstance(await rm.ask(subject, within_s=5), Refusal)


async def has_allocations(rm: Hostile, count: int) -> bool:
    answer = await rm.ask(subjects.core_query(rm.rm_id, "stats"), within_s=5)
    return isinstance(answer, Reply) and json.loads(answer.payload)["allocations"] >= count


class Flood:
    """AT_ONCE questions wait for an answer at any time, until it `ends`. `answers`: those that have come."""

    def __init__(self, rm: Hostile, subject: str, request: dict[str, Any]) -> None:
        self.ends = False
        self.answers: list[Reply | Refusal | None] = []
        self._rm = rm
        self._asked = subject, json.dumps(request).encode()

    async def __aenter__(self) -> Flood:
        self._asking = [asyncio.create_task(self._ask_again()) for _ in range(AT_ONCE)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.ends = True
        await asyncio.gather(*self._asking)

    async def _ask_again(self) -> None:
        while not self.ends:
            self.answers.append(await self._rm.ask(*self._asked, within_s=20))
            await asyncio.sleep(0.2)


@pytest.fixture
async def faulty(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    """A system in which the log of an RM can be full (`tests/tenants/faults`)."""
    monkeypatch.setenv("PYTHONPATH", f"{FAULTS}:{os.environ.get('PYTHONPATH', '')}")
    with tempfile.TemporaryDirectory(prefix="remuda-faulty-") as data:
        async with ground(Path(data)) as prepared:
            yield prepared


@pytest.mark.asyncio(loop_scope="function")
async def test_questions_about_an_rm_whose_log_is_full_and_which_is_halted_then(faulty: Ground) -> None:
    async with faulty.attack() as rm:
        await rm.register()
        await rm.submit(application("log-is-full", queue="root.a", user="ann"))
        subject = subjects.leader_query(rm.rm_id, "stats")
        await eventually(lambda: refused(rm, subject))
        async with Flood(rm, subject, {}) as flood:
            await others_are_answered(faulty, rm)
            flood.ends = True
            await asyncio.sleep(0.2)  # what was asked has arrived: an RM without a leader has nobody who answers
            await Halts(faulty.system.bus, "attack", lambda: 1).halt(rm.rm_id, "the attack is over")
            await others_are_answered(faulty, rm)
        assert {type(one) for one in flood.answers} == {Refusal}


async def test_questions_for_a_commit_that_never_comes(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register()
        subject = subjects.core_query(rm.rm_id, "stats")
        async with Flood(rm, subject, {"min_log_seq": 2**62}) as flood:
            await others_are_answered(ground, rm)
            answer = await rm.ask(subject, within_s=OTHERS_WITHIN_S)
            assert isinstance(answer, Reply), answer
        assert {one.code for one in flood.answers if isinstance(one, Refusal)} == {"503"}


async def test_questions_that_take_long(ground: Ground) -> None:
    """Explanations of asks of many sizes."""
    async with ground.attack() as rm:
        await rm.register()
        await rm.nodes(*(node(f"n{number}", vcore=1) for number in range(1_000)))
        await rm.submit(application("app", queue="root.a", user="ann"))
        await rm.asks(*(ask("app", f"k{number}", vcore=2 + number) for number in range(5_000)))
        async with Flood(rm, subjects.core_query(rm.rm_id, "explain"), {}):
            await others_are_answered(ground, rm)


async def test_an_rm_that_is_silent_for_long(ground: Ground) -> None:
    """It is asked no more than it could answer, and works as before when it answers again."""
    async with ground.attack() as rm:
        silent, asked = True, 0

        async def arrived(question: Msg) -> None:
            nonlocal asked
            asked += 1
            if not silent:
                await rm.client.publish(question.reply, b"")

        await rm.client.subscribe(subjects.question(rm.rm_id, "predicates"), cb=arrived)
        await rm.register(extra={"predicates": "true"})
        await rm.nodes(*(node(f"n{number}", vcore=1_000) for number in range(20)))
        await rm.submit(application("app", queue="root.a", user="ann"))
        for first in range(0, 5_000, 1_000):
            await rm.asks(*(ask("app", f"k{first + number}", vcore=1) for number in range(1_000)))
        await asyncio.sleep(SILENT_S)
        assert 0 < asked <= 3 * QUESTIONS_AT_ONCE
        silent = False
        await eventually(lambda: has_allocations(rm, 1_000))


@pytest.mark.parametrize("kind", ["applications", "asks", "explain"])
async def test_a_reader_of_one_row_behind_thousands_of_others(ground: Ground, tmp_path: Path, kind: str) -> None:
    (tmp_path / "tokens").write_text(f"{TOKEN} eve\n")

    def settings(**given: Any) -> WebSettings:
        return WebSettings(port=0, restricted=True, tokens=tmp_path / "tokens", **given)

    chosen: Any = settings
    async with ground.attack() as rm, running(ground.url, "web-eve", web_main, chosen):
        await rm.register(OF_EVE)
        for first in range(0, FOREIGN, 1_000):
            names = [f"app-{first + number}" for number in range(1_000)]
            await rm.submit(*(application(name, queue="root.a", user="zoe") for name in names))
            await rm.asks(*(ask(name, "k", vcore=1 + number) for number, name in enumerate(names)))
        await rm.submit(application("of-eve", queue="root.b", user="eve"))
        await rm.asks(ask("of-eve", "k", vcore=1))
        await eventually(lambda: answered(rm, subjects.core_query(rm.rm_id, "asks"), application="of-eve"))
        port = (await address_of(ground.system.bus, "web-eve"))["port"]
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30 * PATIENCE
        ) as client:
            path = f"/api/v1/rms/{rm.rm_id}/{kind}?limit=1"
            impatient = asyncio.create_task(client.get(path, params={"queue": "root.a"}))
            await asyncio.sleep(0.05)
            impatient.cancel()
            began = time.monotonic()
            found = await asyncio.gather(
                *(client.get(path, params={"min_log_seq": str(number)}) for number in range(5))
            )
            assert time.monotonic() - began < 10 * PATIENCE
            for answer in found:
                assert [row.get("application", row.get("id")) for row in answer.json()["rows"]] == ["of-eve"]
            await others_are_answered(ground, rm)
