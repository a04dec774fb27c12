"""A resource manager is divided into two by its partitions: the command checks, and its steps lead there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.admin.divide import prepare
from remuda.admin.forget import forget_rm
from remuda.embedded import NatsServer
from remuda.errors import UserError
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_operations.queries import core as queries
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import around_the_core, placed, running

TEXT = """\
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
  - name: gpu
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
"""
INTO = ("rm-cpu=default", "rm-gpu=GPU")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as server:
        yield server


async def divide(url: str, config: Path, directory: Path, rm: str = "rm", into: tuple[str, ...] = INTO) -> None:
    await prepare(url, rm, config, into, directory)


async def fill(rm: ResourceManager, partition: str, existing: list[si.Allocation]) -> None:
    await rm.submit(application(f"app-{partition}", queue="root.a", user="u", partition=partition))
    await rm.report_nodes([node(f"n-{partition}", vcore=10, partition=partition, existing=existing)])


@pytest.mark.timeout(120)
async def test_an_rm_is_divided_and_what_runs_goes_on(server: NatsServer, tmp_path: Path) -> None:
    config, url = tmp_path / "queues.yaml", server.url
    config.write_text(TEXT)
    async with around_the_core(url) as bus, running(url, "core", core_main, CoreSettings):
        runs: dict[str, si.Allocation] = {}
        async with ResourceManager.connect(url, "rm", config=TEXT) as rm:
            for partition in ("default", "gpu"):
                await fill(rm, partition, [])
                await rm.ask([ask(f"app-{partition}", f"k-{partition}", partition=partition, vcore=1)])
                (runs[partition],) = await placed(rm, f"k-{partition}")
            await refusals(url, config, tmp_path)
            await divide(url, config, tmp_path / "out")
            await rm.deregister()
        steps = (tmp_path / "out" / "steps.md").read_text()
        assert "| rm-gpu | rm-gpu.yaml | gpu | 1 | vcore" in steps
        for rm_id, partition in (("rm-cpu", "default"), ("rm-gpu", "gpu")):
            text = (tmp_path / "out" / f"{rm_id}.yaml").read_text()
            async with ResourceManager.connect(url, rm_id, config=text) as rm:
                await fill(rm, partition, [runs[partition]])
                await rm.ask([ask(f"app-{partition}", "more", partition=partition, vcore=1)])
                await placed(rm, "more")
                (found,) = (await queries.queues(bus, rm_id)).partitions
                assert (found.name, found.nodes, found.allocated) == (partition, 1, {"vcore": 2})


async def refusals(url: str, config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(f"# another\n{TEXT}")
    out = tmp_path / "refused"
    cases = (
        ("rm has another configuration, with the checksum", {"config": other}),
        ("no resource manager 'nobody' is registered", {"rm": "nobody"}),
        ("partition 'gpu' is in none", {"into": ("x=default", "y=other")}),
        ("expected a new rmID, each once", {"into": ("rm=default", "y=gpu")}),
        ("1 given, expected at least two", {"into": ("x=default,gpu",)}),
        ("expected RM=PARTITION", {"into": ("x", "y=gpu")}),
        ("exists, expected the name of a new directory", {"directory": tmp_path}),
    )
    for said, changed in cases:
        with pytest.raises(UserError, match=said):
            await divide(**{"url": url, "config": config, "directory": out, **changed})  # type: ignore[arg-type]
    async with ResourceManager.connect(url, "rm-gpu", config=TEXT) as there:
        with pytest.raises(UserError, match="there is a resource manager of that name, or data of one"):
            await divide(url, config, out)
        await there.deregister()
    await forget_rm(url, "rm-gpu")
    assert not out.exists(), "nothing is written before all is checked"
