"""Questions are answered by a core that follows, at a commit that the answer names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.nats import NatsBus
from remuda_core import limits
from remuda_core.shell.answer_pace import Questions
from remuda_core.shell.main import main as core_main
from remuda_core.shell.replica import Replica
from remuda_core.shell.settings import CoreSettings
from remuda_replication.lease import leader_of
from remuda_replication.rms.halts import Halts
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import QUEUES, around_the_core, placed, running, until


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with around_the_core(server.url) as bus:
        yield bus


async def query(bus: NatsBus, rm_id: str, kind: str, **request: Any) -> dict[str, Any]:
    reply = await bus.request(subjects.core_query(rm_id, kind), json.dumps(request).encode())
    return json.loads(reply.payload)


async def work(rm: ResourceManager, key: str) -> None:
    await rm.submit(application(f"app-{key}", queue="root.a", user="u"))
    await rm.report_nodes([node(f"node-{key}", vcore=1)])
    await rm.ask([ask(f"app-{key}", key, vcore=1)])
    await placed(rm, key)


async def head(bus: NatsBus, rm_id: str) -> int:
    last = await bus.last_message(subjects.LOG.name, subjects.log(rm_id))
    return last.seq if last is not None else 0


async def test_the_core_that_follows_answers(server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 0.2)
    led: list[bool] = []
    answer, digest = Replica.answer, Replica.digest

    async def watched(replica: Replica, kind: str, request: dict[str, Any], questions: Questions) -> bytes:
        led.append(replica.leader is not None)
        return await answer(replica, kind, request, questions)

    async def watched_digest(replica: Replica, request: dict[str, Any]) -> bytes:
        led.append(replica.leader is not None)
        return await digest(replica, request)

    monkeypatch.setattr(Replica, "answer", watched)
    monkeypatch.setattr(Replica, "digest", watched_digest)
    async with (
        running(server.url, "one", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm,
    ):
        await work(rm, "a")
        found = await query(bus, "rm-1", "allocations", min_log_seq=await head(bus, "rm-1"))
        assert [row["key"] for row in found["allocations"]] == ["a"]
        assert led == [True], "there is no other"
        async with running(server.url, "two", core_main, CoreSettings):
            await until(lambda: both_ready(bus))
            led.clear()
            await work(rm, "b")
            seq = await head(bus, "rm-1")
            for kind in ("allocations", "queues", "nodes", "applications", "usage", "explain", "stats", "rejections"):
                found = await query(bus, "rm-1", kind, min_log_seq=seq)
                assert found["log_seq"] >= seq
                assert found["at_ms"] > 0
            assert led == [False] * 8
            assert (await query(bus, "rm-1", "digest"))["log_seq"] >= seq
            assert led[-1], "a digest is of the leader's state"


async def both_ready(bus: NatsBus) -> bool:
    entries = [await bus.get(subjects.LEASES.name, subjects.member(name)) for name in ("one", "two")]
    return all(entry is not None and json.loads(entry.value or b"{}").get("ready") for entry in entries)


async def test_what_cannot_be_answered_is_refused_at_once(server: NatsServer, bus: NatsBus) -> None:
    async with (
        running(server.url, "one", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm,
    ):
        await work(rm, "a")
        assert await leader_of(bus, "rm-1") == "one"
        began = asyncio.get_running_loop().time()
        for rm_id, kind, request, code, reason in (
            ("rm-9", "queues", {}, 404, "no resource manager 'rm-9' is registered"),
            ("rm-1", "queues", {"min_log_seq": "x"}, 400, "min_log_seq is 'x', expected the log_seq of a commit"),
            ("rm-1", "queues", {"min_log_seq": 10**9}, 503, "the last commit known here is"),
            ("rm-1", "allocations", {"limit": 0}, 400, "limit is 0"),
            (
                "rm-1",
                "applications",
                {"user": "x"},
                400,
                "^user is 'x', expected only these fields: application, queue, ",
            ),
            ("rm-1", "digest", {"nonsense": 1}, 400, "^nonsense is 1, expected only these fields: min_log_seq, rm$"),
        ):
            with pytest.raises(Refused, match=reason) as refusal:
                await query(bus, rm_id, kind, **request)
            assert refusal.value.code == code
        await Halts(bus, "test", lambda: 1).halt("rm-1", "a test")
        with pytest.raises(Refused, match="is halted: a test|does not lead any more") as refusal:
            await query(bus, "rm-1", "queues")
        assert refusal.value.code == 503
        assert asyncio.get_running_loop().time() - began < limits.LOG_SEQ_WITHIN_S + 2


async def test_answers_of_a_leader_under_load_are_of_durable_commits(server: NatsServer, bus: NatsBus) -> None:
    """The content of an answer is in the log up to the commit that it names."""
    async with (
        running(server.url, "one", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm,
    ):
        await rm.report_nodes([node("n1", vcore=10_000)])
        await rm.submit(application("app-1", queue="root.a", user="u"))
        await rm.ask([ask("app-1", f"k{n}", vcore=1) for n in range(2_000)])
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1]["allocations"] < 2_000:
            seen.append(await query(bus, "rm-1", "stats"))
            assert await head(bus, "rm-1") >= seen[-1]["log_seq"]
        by_commit = {one["log_seq"]: one["allocations"] for one in seen}
        assert all(by_commit[one["log_seq"]] == one["allocations"] for one in seen)
