"""A message of an RM ends a core, by an exception or by a crash. It ends no more than two cores. Then that RM alone is
halted, its message is kept, and the other RMs continue."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.tests.running import finished
from remuda.admin.rebuild import delete_and_request_report, read_saved
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from remuda_core import evolve, facts
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_core.state import State
from remuda_operations.queries.records import halts
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_replication.rms.halts import Halts
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import QUEUES, around_the_core, placed, running, until

KILLS = 12


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node can be called odd."""
    by_fact: dict[Any, Any] = evolve.BY_FACT
    add = by_fact[facts.NodeAdded]

    def stumble(state: State, fact: facts.NodeAdded) -> None:
        if fact.node_id == "odd":
            raise KeyError(fact.node_id)
        add(state, fact)

    monkeypatch.setitem(by_fact, facts.NodeAdded, stumble)


async def keep_a_core(url: str, deaths: list[Exception]) -> None:
    """Started again when it ends, as a supervisor does."""
    while True:
        try:
            async with running(url, "core", core_main, CoreSettings) as task:
                await asyncio.wait([task])
        except KeyError as death:
            deaths.append(death)
            await asyncio.sleep(0.1)


async def place(rm: ResourceManager, key: str) -> None:
    """On a node of its own."""
    await rm.submit(application(f"app-{key}", queue="root.a", user="u"))
    await rm.report_nodes([node(f"node-{key}", vcore=1)])
    await rm.ask([ask(f"app-{key}", key, vcore=1)])
    await placed(rm, key)


async def halted(bus: NatsBus) -> list[str]:
    return [one["rm_id"] for one in await halts(bus)]


@pytest.mark.timeout(120)
async def test_a_fault_halts_the_rm_whose_message_it_was(server: NatsServer, tmp_path: Path, fault: None) -> None:
    deaths: list[Exception] = []
    async with around_the_core(server.url) as bus, asyncio.timeout(90):
        core = asyncio.create_task(keep_a_core(server.url, deaths))
        one, two, three = (ResourceManager.connect(server.url, f"rm-{n}", config=QUEUES) for n in (1, 2, 3))
        reports = asyncio.Event()
        one.on_report_requested(reports.set)
        async with one, two, three:
            await one.report_nodes([node("odd", vcore=1)])
            await until(lambda: is_halted(bus, ["rm-1"]), 30)
            assert [death.__notes__ for death in deaths] == [["rm rm-1"]], "one core has ended, the next one halts"
            await place(two, "b")
            await place(three, "c")
            (halt,) = await halts(bus)
            path = await delete_and_request_report(bus, "rm-1", tmp_path)
            kept = [message for stream, message in read_saved(path) if stream == subjects.INBOX.name]
            (odd,) = [m for m in kept if b"odd" in m.payload]
            assert f"message {odd.seq} of INBOX: KeyError: 'odd'" in halt["reason"]
            assert [n.nodeID for n in inbox_pb2.Command.FromString(odd.payload).node.nodes] == ["odd"]
            await reports.wait()
            await place(one, "a")
            assert len(deaths) == 1
        core.cancel()
        await asyncio.wait([core])


@pytest.mark.timeout(120)
async def test_an_rm_is_resumed_once_the_fault_is_mended(
    server: NatsServer, fault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths: list[Exception] = []
    async with around_the_core(server.url) as bus, asyncio.timeout(90):
        core = asyncio.create_task(keep_a_core(server.url, deaths))
        async with ResourceManager.connect(server.url, "rm-1", config=QUEUES) as one:
            await one.report_nodes([node("odd", vcore=1)])
            await until(lambda: is_halted(bus, ["rm-1"]), 30)
            assert "remuda resume rm-1" in await status(server.url)

            code, said = await finished("resume", "rm-1", "--yes", "--nats", server.url)
            assert code == 1 and "rm-1 is halted again: " in said and "KeyError: 'odd'" in said
            assert len(deaths) == 1, "the fault on record halts the RM at once"

            monkeypatch.undo()
            code, said = await finished("resume", "rm-1", "--yes", "--json", "--nats", server.url)
            assert code == 0, said
            document = json.loads(said)
            assert (document["rm_id"], document["cause"], document["behind"]) == ("rm-1", "fault", False)
            errors = {met["stream"]: met["error"] for met in document["faults"]}
            assert errors[subjects.INBOX.name].startswith("KeyError: 'odd' at ")
            await place(one, "a")
            assert await halted(bus) == [] and len(deaths) == 1
            assert "fault: rm-1 message" in await status(server.url)
        core.cancel()
        await asyncio.wait([core])


async def status(url: str) -> str:
    """On one line."""
    return " ".join((await finished("status", "--nats", url))[1].split())


async def test_only_a_halt_by_a_fault_is_lifted(server: NatsServer, bus: NatsBus) -> None:
    halts = Halts(bus, "test", lambda: 7)
    await halts.halt("forgetful", "the log ends at 3")
    code, said = await finished("resume", "forgetful", "--yes", "--nats", server.url)
    assert code == 1 and "only `remuda rebuild forgetful` ends that" in said
    code, said = await finished("resume", "other", "--yes", "--nats", server.url)
    assert code == 1 and "other is not halted" in said
    code, said = await finished("resume", "*", "--yes", "--nats", server.url)
    assert code == 1 and "expected 1 to 64 of" in said
    code, said = await finished("resume", "forgetful", "--json", "--nats", server.url)
    assert code == 1 and "needs a confirmation" in said
    assert await halted(bus) == ["forgetful"]


async def is_halted(bus: NatsBus, rms: list[str]) -> bool:
    return await halted(bus) == rms


class Cores:
    """Processes that are started again, and how often they have ended. Between two of them the process ID is 0."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.ends = 0
        self.pid = 0

    async def keep(self) -> None:
        env = {**os.environ, "REMUDA_NATS_URL": self._url, "REMUDA_INSTANCE": "core-1"}
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.system.poisoned_core", env=env, stderr=sys.stderr
            )
            self.pid = process.pid
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.terminate()
                    await process.wait()
            self.pid = 0
            self.ends += 1


@asynccontextmanager
async def cores(url: str) -> AsyncIterator[Cores]:
    made = Cores(url)
    keeping = asyncio.create_task(made.keep())
    try:
        yield made
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


@pytest.mark.timeout(180)
async def test_what_kills_without_a_word_halts_one_rm(server: NatsServer) -> None:
    async with around_the_core(server.url) as bus, cores(server.url) as core, asyncio.timeout(150):
        one, two, three = (ResourceManager.connect(server.url, f"rm-{n}", config=QUEUES) for n in (1, 2, 3))
        async with one, two, three:
            await one.report_nodes([node("deadly", vcore=1)])
            await until(lambda: is_halted(bus, ["rm-1"]), 60)
            assert core.ends == 2
            (halt,) = await halts(bus)
            assert "two processes were killed here, and so was a child process that handled message" in halt["reason"]
            await place(two, "b")
            await place(three, "c")
            assert core.ends == 2
            code, said = await finished("resume", "rm-1", "--yes", "--nats", server.url)
            assert code == 1 and "rm-1 is halted again: two processes were killed here" in said
            await place(two, "d")
            assert core.ends == 2, "a child has handled the message"


@pytest.mark.timeout(180)
async def test_a_core_that_is_killed_again_and_again_halts_nothing(server: NatsServer) -> None:
    async with (
        around_the_core(server.url) as bus,
        cores(server.url) as core,
        asyncio.timeout(150),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as one,
    ):
        await place(one, "first")
        for kill in range(KILLS):
            ends = core.ends
            await until(partial(is_running, core))
            os.kill(core.pid, signal.SIGKILL)
            await one.report_nodes([node(f"n{kill}", vcore=1)])
            await until(partial(has_ended, core, ends))
            await asyncio.sleep(0.2 * (kill % 4))
        await place(one, "last")
        assert await halted(bus) == []


async def is_running(core: Cores) -> bool:
    return core.pid != 0


async def has_ended(core: Cores, ends: int) -> bool:
    return core.ends > ends
