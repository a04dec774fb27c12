"""The walks of docs/tour.md, on a real NATS server: the functions that they name are called, in their order."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from docs import tour, walks
from docs.sections import replaced
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from remuda_config import worker
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import publish as publish_events
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.lease import leader_of
from remuda_sdk import ResourceManager, application, ask, node
from tests.patience import PATIENCE
from tests.system.running import QUEUES, TWO_QUEUES, around_the_core, placed, running, until

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0
WORKER = "config worker"


@contextmanager
def traced(functions: Iterable[str]) -> Iterator[list[str]]:
    """The calls of these functions in this thread, in order. To resume a coroutine or a generator is a call, too."""
    by_code = {tour.code_of(function): function for function in functions}
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (function := by_code.get(frame.f_code)) is not None:
            calls.append(function)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def functions_of(walk: walks.Walk, worker: bool = False) -> list[str]:
    """In order: those in the worker process of the configuration service, or all others."""
    return [hop.function for leg in walk if (leg.process == WORKER) is worker for hop in leg.hops]


def missing(functions: Iterable[str], calls: Iterable[str]) -> str:
    """The first of the functions that is not called after the ones before it; "" when all are called in order."""
    rest = iter(calls)
    return next((function for function in functions if function not in rest), "")


async def until_walked(walk: walks.Walk, calls: list[str]) -> None:
    async def is_walked() -> bool:
        return not missing(functions_of(walk), list(calls))

    try:
        await until(is_walked, WITHIN_S)
    except TimeoutError:
        pytest.fail(f"{missing(functions_of(walk), calls)} is not called after the functions before it")


@asynccontextmanager
async def core(url: str, name: str = "core") -> AsyncIterator[None]:
    async with running(url, name, core_main, CoreSettings):
        yield


async def test_an_ask(server: NatsServer) -> None:
    async with (
        around_the_core(server.url),
        core(server.url),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm,
    ):
        await rm.report_nodes([node("n1", vcore=4_000)])
        await rm.submit(application("app-1", queue="root.a", user="ann"))
        with traced(functions_of(walks.ASK)) as calls:
            await rm.ask([ask("app-1", "k1", vcore=1_000)])
            await placed(rm, "k1")
            await until_walked(walks.ASK, calls)


def limited(applications: int) -> str:
    return QUEUES.replace("{name: a}", f"{{name: a, maxapplications: {applications}}}")


async def test_a_configuration_change(server: NatsServer, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with (
        around_the_core(server.url, file),
        core(server.url),
        running(server.url, "events", lambda bus, _: publish_events(bus)),
        ResourceManager.connect(server.url, "rm-1") as rm,
    ):
        await rm.report_nodes([node("n1", vcore=4_000)])
        await rm.submit(application("app-1", queue="root.a", user="ann"))
        await rm.ask([ask("app-1", "k1", vcore=1_000)])
        await placed(rm, "k1")  # the partition has been scheduled, so it has an index
        with traced(functions_of(walks.CONFIGURATION)) as calls:
            file.write_text(limited(2))
            await until_walked(walks.CONFIGURATION, calls)


def test_a_configuration_change_in_the_worker() -> None:
    """Its part is in a process of its own, here as well: it limits the processor time of the process."""
    command = [sys.executable, "-c", "from tests.system.test_tour import work; work()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=WITHIN_S * PATIENCE)
    assert missing(functions_of(walks.CONFIGURATION, worker=True), done.stdout.splitlines()) == ""


def work() -> None:
    with traced(functions_of(walks.CONFIGURATION, worker=True)) as calls:
        answer = worker.handle(worker.encode_request("load", 10, QUEUES, "queues.yaml"))
    assert not config_pb2.ResolvedConfiguration.FromString(answer).problems
    print("\n".join(calls))


async def test_a_preemption(server: NatsServer) -> None:
    async with (
        around_the_core(server.url),
        core(server.url),
        ResourceManager.connect(server.url, "rm-1", config=TWO_QUEUES) as rm,
    ):
        await rm.report_nodes([node("n1", vcore=4_000)])
        await rm.submit(
            application("app-a", queue="root.a", user="ann"), application("app-b", queue="root.b", user="ann")
        )
        await rm.ask([ask("app-a", key, vcore=2_000) for key in ("a1", "a2")])
        await placed(rm, "a1", "a2")
        with traced(functions_of(walks.PREEMPTION)) as calls:
            await rm.ask([ask("app-b", "b", vcore=4_000, preemption=si.PreemptionPolicy(allowPreemptOther=True))])
            await placed(rm, "b")
            await until_walked(walks.PREEMPTION, calls)


@asynccontextmanager
async def core_process(url: str, name: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "remuda", "run", "core", "--nats", url]
    process = subprocess.Popen(command, env={**os.environ, "REMUDA_INSTANCE": name}, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def is_up(bus: NatsBus, name: str) -> bool:
    """Whether this core has a lease and follows hot, so that others see when it ends."""
    entry = await bus.get(subjects.LEASES.name, subjects.member(name))
    return entry is not None and b'"ready": true' in (entry.value or b"")


async def test_a_failover(server: NatsServer) -> None:
    async with around_the_core(server.url) as bus, core_process(server.url, "one") as one:
        await until(lambda: is_up(bus, "one"), WITHIN_S)
        async with ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm, core(server.url, "two"):
            await rm.report_nodes([node("n1", vcore=4_000)])
            await rm.submit(application("app-1", queue="root.a", user="ann"))
            await until(lambda: is_up(bus, "two"), WITHIN_S)
            assert await leader_of(bus, "rm-1") == "one"
            one.kill()
            with traced(functions_of(walks.FAILOVER)) as calls:
                await rm.ask([ask("app-1", "k1", vcore=1_000)])
                await asyncio.gather(placed(rm, "k1"), until_walked(walks.FAILOVER, calls))


def test_the_document_has_these_tables() -> None:
    document = (ROOT / "docs/tour.md").read_text()
    assert replaced(document, tour.sections()) == document, "`make docs` writes it"


def test_a_place_that_is_gone_is_found() -> None:
    for gone in ("remuda_config.verify:POLICIES", "docs/walks.md"):
        with pytest.raises((AttributeError, FileNotFoundError)):
            tour.file_of(gone)


@pytest.mark.parametrize("gone", ["remuda_core.decide:decided", "remuda_core.judge:decide", "remuda_core.core:Core"])
def test_a_function_that_is_gone_is_found(gone: str) -> None:
    with pytest.raises((AttributeError, ImportError, TypeError)):
        tour.code_of(gone)
