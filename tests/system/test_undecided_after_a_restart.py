"""An rmproxy is restarted before it has deleted requests that were handled: none of them counts as undecided, and no
alert is raised (RemudaNothingDecided)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from remuda.embedded import NatsServer
from remuda_bus.metrics import REGISTRY
from remuda_bus.nats import connect
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.inbound.forwarder import Forwarder
from remuda_rmproxy.records.request_times import Cause, RequestTimes
from remuda_rmproxy.shell import main as rmproxy_main
from remuda_sdk import RegistrationFailed, ResourceManager, application, ask, node
from tests.system.running import QUEUES, listens, placed, running, until

RM = "undecided-rm"


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(name, {"rm": RM}) or 0.0


async def test_handled_requests_are_decided(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRIM_REQUESTS_INTERVAL_S", 3_600.0)
    async with (
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "core", core_main, CoreSettings),
    ):
        bus = await connect(server.url, "test", timeout_s=5)
        rm = ResourceManager.connect(server.url, RM, config=QUEUES, register=False)
        async with running(server.url, "rmproxy", rmproxy_main):
            await until(lambda: listens(bus))
            async with rm:
                await until(lambda: registers(rm), 20)
                await rm.report_nodes([node("n1", vcore=10)])
                await rm.submit(application("app-1", queue="root.a", user="u"))
                await rm.ask([ask("app-1", "k1", vcore=1)])
                await placed(rm, "k1")
        before = sample("remuda_rmproxy_requests_total")
        forward_after_the_log_is_read(monkeypatch)
        async with running(server.url, "rmproxy", rmproxy_main):

            async def forwarded_again() -> bool:
                return sample("remuda_rmproxy_requests_total") > before

            async def decided() -> bool:
                return sample("remuda_rmproxy_undecided_seconds") == 0.0

            await until(forwarded_again, 20)
            await until(decided)
        await bus.close()


def forward_after_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where the requests take longer to read."""
    is_read = asyncio.Event()
    causes, run = RequestTimes.causes, Forwarder.run

    def noted(times: RequestTimes, rm_id: str, commit: log_pb2.Commit) -> Sequence[Cause]:
        asyncio.get_running_loop().call_later(0.2, is_read.set)  # further commits are read meanwhile
        return causes(times, rm_id, commit)

    async def later(forwarder: Forwarder) -> None:
        await is_read.wait()
        await run(forwarder)

    monkeypatch.setattr(RequestTimes, "causes", noted)
    monkeypatch.setattr(Forwarder, "run", later)


async def registers(rm: ResourceManager) -> bool:
    try:
        await rm.register()
    except RegistrationFailed:
        return False
    return True
