"""Access of callers to each method of `remuda.v1.Admin` and `Metrics`: each cell is tried, over the bus with real keys
and over gRPC with real certificates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import pytest_asyncio

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_bus.nats import connect
from remuda_config.shell import ConfigSettings
from remuda_config.shell import main as config
from remuda_core.shell.main import main as core
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve as events
from remuda_grpc.settings import GrpcSettings
from remuda_grpc.shell import main as front_end
from remuda_operations.operator_api.methods import ACTING, READING, Access, methods
from remuda_operations.operators import Operator
from remuda_replication.process import Settings
from remuda_rmproxy.shell import main as rmproxy
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.grpc_client import port_of
from tests.system.guarded import GuardedServer
from tests.system.operator_client import DESCRIPTORS, GrpcOperator, NatsOperator, request_of
from tests.system.running import placed, running
from tests.system.test_grpc_certificates import credentials, make_certificates

RM = "rm-1"
QUEUES = """
partitions: [{name: default, queues: [{name: root, submitacl: '*', adminacl: ' admins', queues: [{name: a}]}]}]
"""
EVE = Operator("eve", ("nobodies",))  # in no access list
PAT = Operator("pat@example.com", ("users", "admins"))  # administers root by group
OPERATORS = (EVE, PAT)
RMS = ("rm-1", "rm-2")
SERVICES = ("core", "rmproxy", "config", "events", "grpc")
pytestmark = pytest.mark.asyncio(loop_scope="module")
METHODS = {method.name: method for method in methods()}
OF_RM = {name for name, method in METHODS.items() if method.access is Access.RM}
FIELDS: dict[str, dict[str, Any]] = {
    "GetStory": {"rm": RM, "id": "n1"},
    "WhatIf": {"rm": RM, "application": "app-1", "key": "k"},
    "Preview": {"rm": RM, "text": QUEUES, "passes": 1},
    "CheckConfiguration": {"text": QUEUES},
    "GetConfigurationVersion": {"version": 1},
    "DiffConfiguration": {"before": 1, "text": QUEUES},
    **{name: {"rm": RM} for name in OF_RM},
}


@dataclass
class System:
    connections: dict[str, Bus]
    channels: dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    directory = tmp_path_factory.mktemp("access")
    file = directory / "queues.yaml"
    file.write_text(QUEUES)
    server = GuardedServer(directory / "nats", operators=OPERATORS, acts_as={"grpc": OPERATORS})
    certificates = make_certificates(
        directory, "localhost", "rm-1", "rm-2", "pat-laptop", "eve-laptop", "zoe-laptop", "stranger"
    )

    def secure(**given: Any) -> GrpcSettings:
        tls = {"certificate": "localhost.pem", "key": "localhost.key", "client_ca": "ca.pem"}
        files: dict[str, Any] = {name: certificates / file_name for name, file_name in tls.items()}
        entries = ("pat-laptop=pat@example.com+users+admins", "eve-laptop=eve+nobodies", "zoe-laptop=zoe+admins")
        return GrpcSettings(port=0, operators=entries, **files, **given)

    async with server, AsyncExitStack() as stack:
        admin = await connect(server.url, "remuda-cli", access=server.access("admin"), timeout_s=5)
        stack.push_async_callback(admin.close)
        await admin.declare()
        for name, main, settings in (
            ("config", lambda bus, own: config(bus, own, file), ConfigSettings),
            ("core", core, CoreSettings),
            ("rmproxy", rmproxy, Settings),
            ("events", lambda bus, _: events(bus, "events"), Settings),
            ("grpc", front_end, secure),
        ):
            given: Any = settings
            await stack.enter_async_context(running(server.url, name, main, given, server.access(name)))
        connections: dict[str, Bus] = {}
        for who in (*(operator.name for operator in OPERATORS), *RMS, *SERVICES, "operator"):
            name = f"remuda-{who}" if who in SERVICES else "remuda-cli"
            connections[who] = await connect(server.url, name, access=server.access(who), timeout_s=5)
            stack.push_async_callback(connections[who].close)
        port, channels = await port_of(admin), {}
        for who in ("rm-1", "rm-2", "pat-laptop", "eve-laptop", "zoe-laptop", "stranger"):
            channel = grpc.aio.secure_channel(f"localhost:{port}", credentials(certificates, who))
            channels[who] = await stack.enter_async_context(channel)
        bus = await connect(server.url, "rm-rm-1", access=server.access(RM), timeout_s=5)
        rm = await stack.enter_async_context(ResourceManager.connect(bus, RM))
        await rm.report_nodes([node("n1", vcore=1_000)])
        await rm.submit(application("app-1", queue="root.a", user="u"))
        await rm.ask([ask("app-1", "k0", vcore=1), ask("app-1", "k", vcore=2_000)])
        await placed(rm, "k0")
        yield System(connections, channels)


@pytest.mark.parametrize(("service", "method"), READING)
async def test_operators_and_nobody_else_read_over_nats(system: System, service: str, method: str) -> None:
    for who in ("eve", PAT.name, "operator"):
        await NatsOperator(system.connections[who]).call(method, **FIELDS.get(method, {}))
    for who in (*RMS, *SERVICES):
        with pytest.raises(Refused, match="may not publish"):
            await NatsOperator(system.connections[who]).call(method, **FIELDS.get(method, {}))


@pytest.mark.parametrize("method", ACTING)
async def test_operators_act_in_their_own_names_over_nats(system: System, method: str) -> None:
    """The requests are wrong, so that nothing changes: what refuses them is behind the check of who acts."""
    wrong = {"text": "x", "edits": [{"do": "set"}]} if method == "ApplyConfiguration" else {}
    for who in ("eve", PAT.name):
        with pytest.raises(Refused) as refused:
            await NatsOperator(system.connections[who]).call(method, **wrong)
        assert refused.value.code != 403 or who == "eve", refused.value.reason
    with pytest.raises(Refused, match=f"{method} needs an operator"):
        await NatsOperator(system.connections["operator"]).call(method)
    for who in (*RMS, *SERVICES):
        with pytest.raises(Refused, match="may not publish"):
            await NatsOperator(system.connections[who]).call(method)
    for who, bus in system.connections.items():
        for claimed in (PAT, Operator("root")):
            forged = subjects.operator_change(claimed.token, claimed.groups_token, method)
            with pytest.raises(Refused, match="may not publish"):
                await bus.request(forged, request_of(method).SerializeToString())
            assert who not in claimed.name or who == PAT.name


async def test_access_lists_decide(system: System) -> None:
    clients: dict[str, list[Any]] = {
        "eve": [NatsOperator(system.connections["eve"]), GrpcOperator(system.channels["eve-laptop"])],
        "pat": [NatsOperator(system.connections[PAT.name]), GrpcOperator(system.channels["pat-laptop"])],
    }
    for who, outcome in (("eve", "refused"), ("pat", "accepted")):
        for client in clients[who]:
            for method in ("HoldQueue", "ResumeQueue"):
                found = await client.call(method, rm=RM, queue="root.a")
                assert found.outcome == outcome, found
    held = await clients["pat"][1].call("HoldQueue", rm=RM, queue="root.a")
    queues = await clients["eve"][1].call("ListQueues", rm=RM)
    assert [one.held.operator for one in queues.queues if one.path == "root.a"] == [PAT.name], held
    applied = QUEUES + "# changed\n"
    with pytest.raises(grpc.aio.AioRpcError, match="eve may not change the configuration"):
        await clients["eve"][1].call("ApplyConfiguration", text=applied)
    changed = await clients["pat"][1].call("ApplyConfiguration", text=applied)
    assert changed.version.by == PAT.name


@pytest.mark.parametrize("name", DESCRIPTORS)
async def test_certificates_decide_over_grpc(system: System, name: str) -> None:
    """Operators read everything, an RM reads about itself, a stranger reads nothing. None of the two acts."""
    fields = FIELDS.get(name, {})
    allowed = {"pat-laptop", "eve-laptop", "zoe-laptop"} | ({"rm-1"} if name in OF_RM else set())
    for who, channel in system.channels.items():
        code = await _status(GrpcOperator(channel).call(name, **fields))
        if METHODS[name].access is Access.ACT:
            # Operators get beyond the check: these requests are wrong.
            denied = not who.endswith("laptop")
            assert (code is grpc.StatusCode.PERMISSION_DENIED) == denied or who in ("eve-laptop", "zoe-laptop")
        else:
            assert code is (grpc.StatusCode.OK if who in allowed else grpc.StatusCode.PERMISSION_DENIED), who


async def test_a_front_end_acts_for_those_that_its_key_names(system: System) -> None:
    """Zoe is an operator by the setting of the front end, whose owner may have changed it."""
    zoe = GrpcOperator(system.channels["zoe-laptop"])
    for method, fields in (("HoldQueue", {"rm": RM, "queue": "root.a"}), ("ApplyConfiguration", {"text": QUEUES})):
        with pytest.raises(grpc.aio.AioRpcError, match="remuda-grpc may not publish") as refused:
            await zoe.call(method, **fields)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_an_rm_does_not_read_about_all(system: System) -> None:
    for method in ("FollowChanges", "ReadChanges", "ListNodes"):
        for fields in ({}, {"rm": "rm-2"}):
            code = await _status(GrpcOperator(system.channels["rm-1"]).call(method, **fields))
            assert code is grpc.StatusCode.PERMISSION_DENIED


async def _status(call: Any) -> grpc.StatusCode:
    try:
        async with asyncio.timeout(20):
            if hasattr(call, "__await__"):
                await call
                return grpc.StatusCode.OK
            await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code()
    call.cancel()
    return grpc.StatusCode.OK
