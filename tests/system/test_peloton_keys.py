"""Clients and operators of Peloton's resource manager with keys of their own, against a real server: their name is the
server's word. Roles and pools of clients are those of `resmgr.clients`; `scheduler.acl` names the operators."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from remuda.errors import UserError
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_bus.nats import NatsBus, connect
from remuda_bus.subjects import own_peloton_change, peloton_change, peloton_pools, peloton_rpc, peloton_rpc_of
from remuda_operations.operators import Operator
from remuda_peloton.shell.main import main
from remuda_peloton.shell.settings import ResmgrSettings
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from tests.system.guarded import GuardedServer
from tests.system.running import running, until
from tests.system.test_access import client

DEV, TWO, STRANGER = "jobs-dev", "two@example.com", "stranger"
JOB = "11111111-1111-4111-8111-111111111111-0"
ANN, EVE = "ann@example.com", "eve"  # operators: one in the group of administrators, and another one
CLIENTS = (f"{DEV}=jobs:/dev", f"{TWO}=pools:/dev", f"{TWO}=hosts")


@dataclass
class System:
    """`pools`: their IDs by path."""

    server: GuardedServer
    connections: dict[str, NatsBus]
    pools: dict[str, str]

    async def call(self, who: str, role: str, rpc: str, request: bytes = b"") -> bytes:
        return (await self.connections[who].request(peloton_rpc("default", role, rpc), request)).payload

    async def create(self, who: str, name: str, parent: str) -> str:
        request = respool_pb2.CreateRequest()
        request.config.name, request.config.parent.value = name, parent
        answer = respool_pb2.CreateResponse.FromString(
            await self.call(who, "pools", "CreateResourcePool", request.SerializeToString())
        )
        assert answer.result.value, answer
        return answer.result.value

    async def enqueue(self, who: str, path: str) -> None:
        request = pb.EnqueueGangsRequest()
        request.resPool.value = self.pools[path]
        await self.call(who, "jobs", "EnqueueGangs", request.SerializeToString())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    operators = (Operator(ANN, ("ops",)), Operator(EVE))
    server = GuardedServer(tmp_path_factory.mktemp("keys"), rms=(), operators=operators)
    for name in (DEV, TWO, STRANGER):
        server.keys.add_client(name)
    tls = server.secrets

    async def resmgr(bus: Bus, settings: ResmgrSettings) -> None:
        files = {"certificate": tls / "resmgr.pem", "key": tls / "resmgr.key", "client_ca": tls / "ca.pem"}
        own = {"port": 0, "clients": CLIENTS, "scheduler_acl": " ops"}
        await main(bus, settings.model_copy(update={**own, **files}))

    async with server, AsyncExitStack() as stack:
        connections: dict[str, NatsBus] = {}
        for who in ("admin", "peloton-pools", "peloton-jobs", ANN, EVE, DEV, TWO, STRANGER):
            clients = dict.fromkeys((DEV, TWO, STRANGER), "any-client")
            of_roles = {role: f"remuda-{role}" for role in ("peloton-pools", "peloton-jobs")}
            name = {**clients, **of_roles}.get(who, "remuda-cli")
            connections[who] = await connect(server.url, name, access=server.access(who), timeout_s=5)
            stack.push_async_callback(connections[who].close)
        await connections["admin"].declare()
        await stack.enter_async_context(running(server.url, "resmgr", resmgr, ResmgrSettings, server.access("resmgr")))

        async def leads() -> bool:
            with suppress(BusError):
                about = await connections["admin"].request(subjects.front_end("resmgr", "resmgr"), timeout_s=0.2)
                return bool(json.loads(about.payload)["leads"])
            return False

        await until(leads)
        found = System(server, connections, {})
        for path, parent in (("/dev", "root"), ("/prod", "root"), ("/dev/batch", "/dev")):
            name = path.rpartition("/")[2]
            found.pools[path] = await found.create("peloton-pools", name, found.pools.get(parent, parent))
        yield found


@pytest.mark.asyncio(loop_scope="module")
async def test_a_client_has_the_roles_and_pools_of_its_name(system: System) -> None:
    await system.enqueue(DEV, "/dev/batch")
    assert await system.call(DEV, "read", "Query")
    created = await system.create(TWO, "nightly", system.pools["/dev"])
    assert created
    await system.call(TWO, "hosts", "ReconcileHosts", hosts_pb2.ReconcileHostsRequest().SerializeToString())


@pytest.mark.asyncio(loop_scope="module")
async def test_other_pools_and_other_roles_are_refused(system: System) -> None:
    report = hosts_pb2.ReconcilePoolsRequest()
    report.pools.add(pool_id=system.pools["/prod"])
    for attempt, why in (
        (system.enqueue(DEV, "/prod"), "the client may use pools of /dev, not '/prod'"),
        (system.call(DEV, "jobs", "ReconcilePools", report.SerializeToString()), "pools of /dev, not '/prod'"),
        (system.create(DEV, "x", system.pools["/dev"]), f"the client {DEV} has the roles jobs"),
        (system.call(DEV, "placement", "DequeueGangs"), f"the client {DEV} has the roles jobs"),
        (system.create(TWO, "x", "root"), "the client may use pools of /dev, not '/'"),
        (system.enqueue(TWO, "/dev/batch"), f"the client {TWO} has the roles hosts, pools"),
        (system.call(STRANGER, "read", "Query"), f"the client {STRANGER} has no role"),
    ):
        with pytest.raises(Refused, match=why) as refused:
            await attempt
        assert refused.value.code == 403


@pytest.mark.asyncio(loop_scope="module")
async def test_a_name_cannot_be_forged(system: System) -> None:
    forged = peloton_rpc_of(DEV, "default", "jobs", "EnqueueGangs")
    for who in (STRANGER, TWO, DEV, "peloton-pools"):
        with pytest.raises(Refused, match="may not publish"):
            await system.connections[who].request(forged)
    no_name = peloton_rpc_of("=zz", "default", "read", "Query")
    with pytest.raises(Refused, match="the name of the client") as refused:
        await system.connections["admin"].request(no_name)
    assert refused.value.code == 400


@pytest.mark.asyncio(loop_scope="module")
async def test_pools_are_changed_by_administrators_in_their_own_name(system: System) -> None:
    change = json.dumps({"path": "/dev/new", "set": {"cpu.limit": "0"}}).encode()
    answer = await system.connections[ANN].request(own_peloton_change("default"), change)
    assert json.loads(answer.payload) == {"changes": ["/dev/new set"]}
    with pytest.raises(Refused, match=r"eve may not change pools: expected a member of scheduler\.acl") as refused:
        await system.connections[EVE].request(own_peloton_change("default"), change)
    assert refused.value.code == 403
    ann = Operator(ANN, ("ops",))
    for subject in (peloton_change(ann.token, ann.groups_token, "default"), peloton_pools("default")):
        with pytest.raises(Refused, match="may not publish"):
            await system.connections[EVE].request(subject, change)


READS = ("pools", "explain", "story", "preview")
CHANGES = ("set", "apply", "delete")
MAY_NOT_CHANGE = "changes of pools take the key of an operator in scheduler.acl"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("who", "reads", "change"),
    [
        ("admin", True, ""),
        ("operator", True, MAY_NOT_CHANGE),
        (ANN, True, ""),
        (EVE, True, "eve may not change pools: expected a member of scheduler.acl"),
        ("peloton-pools", False, "may not"),  # a client has RPCs, not the queries of operators
        (DEV, False, "may not"),
    ],
)
async def test_commands_with_each_key(system: System, tmp_path: Path, who: str, reads: bool, change: str) -> None:
    request = pb.EnqueueGangsRequest()
    task = request.gangs.add().tasks.add()
    task.id.value, task.taskId.value, request.resPool.value = JOB, f"{JOB}-1", system.pools["/dev/batch"]
    await system.call("peloton-jobs", "jobs", "EnqueueGangs", request.SerializeToString())
    file = tmp_path / "pools.yaml"
    file.write_text("pools: [{name: dev, pools: [{name: batch}, {name: of-file}]}, {name: prod}]")
    commands = {
        "pools": ("pools", "--json"), "explain": ("explain", "peloton.default", JOB),
        "story": ("story", JOB, "--rm", "peloton.default"), "preview": ("pool", "preview", str(file)),
        "apply": ("pool", "apply", str(file)), "set": ("pool", "set", "/dev/of-file", "description=x"),
        "delete": ("pool", "delete", "/dev/of-file"),
    }  # fmt: skip
    shows = {
        "pools": "/dev/batch",
        "explain": f"{JOB} (run {JOB}-1) is",
        "story": "is PENDING",
        "preview": "/dev/of-file",
    }
    found = {name: await remuda(system, who, *words) for name, words in commands.items()}
    for name in READS:
        code, out, error = found[name]
        assert (code == 0 and shows[name] in out) if reads else (code == 1 and "may not" in error), (name, found[name])
    for name in CHANGES:
        code, out, error = found[name]
        assert (code == 0 and "/dev/of-file" in out) if not change else (code == 1 and change in error), found[name]


async def remuda(system: System, who: str, *words: str) -> tuple[int | None, str, str]:
    access = system.server.access(who)
    variables = {**os.environ, "REMUDA_NATS_CA": str(access.ca), "REMUDA_NATS_SEED": str(access.seed)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", *words, "--nats", system.server.url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=variables,
    )  # fmt: skip
    out, error = await process.communicate()
    return process.returncode, out.decode(), error.decode()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reply_subject_leads_nowhere_but_to_the_client(system: System) -> None:
    refused: list[tuple[str, str]] = []
    async with client(system.server, "admin", refused) as admin, client(system.server, DEV, refused) as dev:
        astray = []

        async def hear(message: Msg) -> None:
            astray.append(message.subject)

        await admin.subscribe("remuda.inbox.>", cb=hear)
        await admin.flush()
        answers = await dev.subscribe("_INBOX.any.>")
        for reply in ("remuda.inbox.peloton.default", "_INBOX.any.x"):
            await dev.publish(peloton_rpc("default", "read", "Query"), b"", reply=reply)
        assert (await answers.next_msg(5)).data
        await admin.flush()
    assert astray == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_deleted_key_ends_its_connections(system: System) -> None:
    system.server.keys.remove_client(STRANGER)
    os.kill(system.server.pid, signal.SIGHUP)

    async def thrown_out() -> bool:
        return not system.connections[STRANGER].connected

    await until(thrown_out)
    await system.enqueue(DEV, "/dev/batch")


def test_a_key_is_made_once(tmp_path: Path) -> None:
    keys = GuardedServer(tmp_path, rms=(), operators=()).keys
    seed = keys.add_client(TWO)
    assert seed.stat().st_mode & 0o777 == 0o600 and list(keys.clients()) == [TWO]
    with pytest.raises(UserError, match=f"{TWO} has a key already"):
        keys.add_client(TWO)
    with pytest.raises(ValueError, match=r"client 'a\*': expected"):
        keys.add_client("a*")
    keys.remove_client(TWO)
    assert keys.clients() == {} and list(keys.clients_directory.iterdir()) == []
    with pytest.raises(UserError, match=f"{TWO} has no key"):
        keys.remove_client(TWO)
