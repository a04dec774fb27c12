"""A preview over the bus: the file of an operator, a core that leads or follows, a report; and nothing has changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.tests.running import finished
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from remuda_config import load
from remuda_core.shell.main import main as core_main
from remuda_core.shell.replica import Replica
from remuda_core.shell.settings import CoreSettings
from remuda_operations.queries.preview import preview
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import QUEUES, around_the_core, placed, running, until
from tests.system.test_answers import both_ready, head, query

PROPOSAL = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a, resources: {max: {vcore: 1m}}}, {name: b}]}]
"""


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with around_the_core(server.url) as bus:
        yield bus


async def test_a_leader_and_a_follower_preview_and_change_nothing(
    server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 0.2)
    led: list[bool] = []
    original = Replica.preview

    async def watched(replica: Replica, *arguments: Any) -> bytes:
        led.append(replica.leader is not None)
        return await original(replica, *arguments)

    monkeypatch.setattr(Replica, "preview", watched)
    async with (
        running(server.url, "one", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm,
    ):
        await rm.report_nodes([node("n1", vcore=2)])
        await rm.submit(application("app-1", queue="root.a", user="u"))
        await rm.ask([ask("app-1", f"k{n}", vcore=1) for n in range(3)])
        await placed(rm, "k0")
        await until(lambda: are_allocated(bus, 2))
        before = await head(bus, "rm-1")
        found = [(await preview(bus, "rm-1", load(PROPOSAL), 3, 10))[0]]
        async with running(server.url, "two", core_main, CoreSettings):
            await until(lambda: both_ready(bus))
            found.append((await preview(bus, "rm-1", load(PROPOSAL), 3, 10))[0])
        assert led[0] and not led[-1], "the leader answers only where no core follows"
        for report in found:
            assert report.log_seq >= before
            assert report.queues.counts["changed"] == report.queues.counts["added"] == 1
            (over,) = report.over_quota.rows
            assert (over["queue"], over["resource"], over["over"]) == ("root.a", "vcore", 1)
        queues = (await query(bus, "rm-1", "queues"))["queues"]
        assert [(queue["path"], queue["max"]) for queue in queues] == [("root", {}), ("root.a", {})]


async def are_allocated(bus: NatsBus, count: int) -> bool:
    return (await query(bus, "rm-1", "stats"))["allocations"] == count


async def test_the_command(server: NatsServer, bus: NatsBus, tmp_path: Path) -> None:
    (file := tmp_path / "new.yaml").write_text(PROPOSAL)
    async with (
        running(server.url, "one", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm,
    ):
        await rm.report_nodes([node("n1", vcore=2)])
        command = ("config", "preview", "rm-1", str(file), "--nats", server.url)
        code, said = await finished(*command)
        assert code == 0, said
        assert "1 changed, 1 added" in said and "max - → vcore 0.001" in said
        code, said = await finished(*command, "--json")
        assert code == 0 and json.loads(said)["queues"]["counts"]["added"] == 1
        code, said = await finished("config", "preview", "rm-9", str(file), "--nats", server.url)
        assert code == 1 and "no resource manager 'rm-9' is registered" in said
        assert subjects.PREVIEW not in subjects.CORE_QUERIES, "RMs do not preview"


async def test_applying_a_file_shows_first_what_it_does(server: NatsServer, tmp_path: Path) -> None:
    (file := tmp_path / "queues.yaml").write_text(QUEUES)
    (new := tmp_path / "new.yaml").write_text(PROPOSAL)
    async with (
        around_the_core(server.url, file),
        running(server.url, "one", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1") as rm,
    ):
        await rm.report_nodes([node("n1", vcore=2)])
        command = ("config", "apply", str(new), "--preview", "--nats", server.url)
        code, said = await finished(*command)
        assert code == 1 and "run it on a terminal or add --yes" in said
        assert file.read_text() == QUEUES
        code, said = await finished(*command, "--yes")
        assert code == 0, said
        assert said.index("Nothing was changed") < said.index("is in force")
        assert file.read_text() == PROPOSAL
