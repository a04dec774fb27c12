"""A fault of ours in what one RM asks: the core dies of it, again and again, and says whom it is about. Once that RM is
rebuilt, all go on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda.rebuild import begin_anew
from remuda.saved import read
from remuda_bus import subjects
from remuda_core import evolve, facts
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_core.state import State
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_sdk import ResourceManager, application, ask, node
from tests.integration.running import QUEUES, around_the_core, placed, running


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


async def keep_a_core(url: str, deaths: asyncio.Queue[KeyError]) -> None:
    """Started again when it dies, as a supervisor does."""
    while True:
        try:
            async with running(url, "core", core_main, CoreSettings) as task:
                await asyncio.wait([task])
        except KeyError as death:
            deaths.put_nowait(death)
            await asyncio.sleep(0.1)


def message_named(death: KeyError) -> int:
    where, whom = death.__notes__
    named = re.fullmatch(r"log_seq \d+, message (\d+) of its inbox or what follows", where)
    assert whom == "rm rm-1" and named is not None
    return int(named[1])


async def place(rm: ResourceManager, key: str) -> None:
    """On a node of its own."""
    await rm.submit(application(f"app-{key}", queue="root.a", user="u"))
    await rm.report_nodes([node(f"node-{key}", vcore=1)])
    await rm.ask([ask(f"app-{key}", key, vcore=1)])
    await placed(rm, key)


async def test_it_names_the_rm_which_can_be_rebuilt(server: NatsServer, tmp_path: Path, fault: None) -> None:
    deaths: asyncio.Queue[KeyError] = asyncio.Queue()
    async with around_the_core(server.url) as bus, asyncio.timeout(60):
        core = asyncio.create_task(keep_a_core(server.url, deaths))
        one, two = (ResourceManager.connect(server.url, name, config=QUEUES) for name in ("rm-1", "rm-2"))
        reports = asyncio.Event()
        one.on_report_wanted(reports.set)
        async with one, two:
            await one.report_nodes([node("odd", vcore=1)])
            first, second = [message_named(await deaths.get()) for _ in range(2)]
            path = await begin_anew(bus, "rm-1", tmp_path)
            assert first == second
            saved = {message.seq: message for stream, message in read(path) if stream == subjects.INBOX.name}
            command = inbox_pb2.Command.FromString(saved[first].payload)
            assert [one.nodeID for one in command.node.nodes] == ["odd"]
            await reports.wait()
            await place(one, "a")
            await place(two, "b")
        core.cancel()
        await asyncio.wait([core])
