"""Processes that end for a known reason leave no fault behind, and say in one line what to do."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from remuda.admin.rebuild import delete_and_request_report
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import NoResponders, Unreadable
from remuda_bus.nats import NatsBus
from remuda_operations.queries import records
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.rms.faults import KILLED, Fault
from remuda_sdk import ResourceManager, application, ask, node
from tests.patience import PATIENCE
from tests.system.running import QUEUES, around_the_core, process_of, until

RM = "rm-1"


async def allocated(rm: ResourceManager, key: str) -> None:
    async with asyncio.timeout(30 * PATIENCE):
        async for callback in rm.callbacks():
            if isinstance(callback, si.AllocationResponse) and key in [one.allocationKey for one in callback.new]:
                return


async def asked(rm: ResourceManager) -> None:
    await rm.report_nodes([node("n1", vcore=10)])
    await rm.submit(application("app-1", queue="root.a", user="u"))
    await rm.ask([ask("app-1", "k1", vcore=1)])


@pytest.mark.parametrize(("sign", "faults"), [(signal.SIGTERM, 0), (signal.SIGKILL, 1)])
async def test_a_core_that_is_stopped_was_not_killed(server: NatsServer, sign: signal.Signals, faults: int) -> None:
    """Although the RM asks for more until there is a core again."""
    async with around_the_core(server.url) as bus:
        async with process_of("core", server.url) as core:
            rm = ResourceManager.connect(server.url, RM, config=QUEUES)
            async with rm:
                await asked(rm)
                await allocated(rm, "k1")
                core.send_signal(sign)
                await core.communicate()
                await rm.ask([ask("app-1", "k2", vcore=1)])

                async def in_the_inbox() -> bool:
                    newest = await bus.last_message(subjects.INBOX.name, subjects.inbox(RM))
                    return newest is not None and b"k2" in newest.payload

                await until(in_the_inbox)
                async with process_of("core", server.url):
                    await allocated(rm, "k2")
        found = await records.faults(bus)
        assert len(found) == faults, found
        if found:
            assert found[0]["stream"] == KILLED and "was killed or cut off here" in found[0]["error"]


async def test_a_core_whose_buckets_are_deleted_was_not_killed(server: NatsServer) -> None:
    async with around_the_core(server.url) as bus, process_of("core", server.url) as core:
        async with ResourceManager.connect(server.url, RM, config=QUEUES) as rm:
            await asked(rm)
            await allocated(rm, "k1")
            await bus._jetstream.api(f"STREAM.DELETE.KV_{subjects.LEADERS.name}")
            core.send_signal(signal.SIGTERM)
            await core.communicate()
            await bus.declare()
            await rm.ask([ask("app-1", "k2", vcore=1)])
            async with process_of("core", server.url):
                await allocated(rm, "k2")
        assert await records.faults(bus) == []


async def test_a_rebuild_ends_faults_at_messages_that_it_deletes(bus: NatsBus, tmp_path: Path) -> None:
    kinds = (KILLED, subjects.INBOX.name, subjects.REQUESTS.name)
    for stream in kinds:
        fault = Fault(RM, stream, 5, "why", "core-1", 0)
        await bus.put(subjects.FAULTS.name, subjects.fault_key(RM, stream), fault.encode())
    await bus.put(subjects.RMS.name, subjects.key_of(RM), b'{"rm_id": "rm-1", "state": "registered"}')
    await delete_and_request_report(bus, RM, tmp_path)
    assert [fault["stream"] for fault in await records.faults(bus)] == [subjects.REQUESTS.name]


async def test_a_missing_stream_is_named_with_what_makes_it(bus: NatsBus) -> None:
    await bus._jetstream.api(f"STREAM.DELETE.KV_{subjects.LEASES.name}")
    await bus._jetstream.api(f"STREAM.DELETE.{subjects.CALLBACKS.name}")
    with pytest.raises(NoResponders, match=f"KV.{subjects.LEASES.name}.*`remuda declare` makes missing streams"):
        await bus.put(subjects.LEASES.name, "any", b"")
    with pytest.raises(Unreadable, match="`remuda declare` makes missing streams"):
        await bus.get(subjects.LEASES.name, "any")
    with pytest.raises(NoResponders, match="`remuda declare` makes missing streams"):
        await bus.last_message(subjects.CALLBACKS.name, subjects.callback(RM, "node"))


async def test_a_health_port_in_use_is_one_line(server: NatsServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with process_of(
            "rmproxy", server.url, REMUDA_HEALTH_PORT=port, REMUDA_HEALTH_HOST="127.0.0.1"
        ) as rmproxy:
            _, said = await asyncio.wait_for(rmproxy.communicate(), 30 * PATIENCE)
    assert rmproxy.returncode == 1
    text = said.decode()
    assert f"health.port {port}, health.host '127.0.0.1': cannot listen there: " in text
    assert "Traceback" not in text and "never awaited" not in text
