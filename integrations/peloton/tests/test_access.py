"""Which RPCs a client may call, by the names in its certificate: the rules alone, and over real gRPC with TLS."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import grpc
import pytest

from integrations.peloton.tests.conformance.over_grpc import leading
from integrations.peloton.tests.test_server import HEADERS, identifier, message, task
from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.rules.access import CHANGING, ROLES, Clients, Forbidden, check_pool_access, read_grants
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.shell.front import HOSTS, RESMGR, RESPOOL, SERVICES
from remuda_peloton.shell.main import credentials
from remuda_peloton.shell.server import Server
from remuda_peloton.shell.settings import ResmgrSettings

DEPLOY = Path(__file__).parents[3] / "deploy"
POOLS = {"d": PoolConfig("d", "dev"), "b": PoolConfig("b", "batch", "d"), "p": PoolConfig("p", "prod"),
         "x": PoolConfig("x", "developers")}  # fmt: skip


def test_every_rpc_that_changes_something_is_of_a_role() -> None:
    changing = {name for _, table in SERVICES.values() for name, rpc in table.items() if rpc.command is not None}
    assert changing == CHANGING


@pytest.mark.parametrize("entry", ["", "a", "a=", "=jobs", "a=god", "a=jobs:dev", "a=jobs:/dev/", "a=hosts:/dev"])
def test_entries_that_are_no_grants(entry: str) -> None:
    with pytest.raises(ValueError, match=r"expected|restricted"):
        read_grants([entry])


def test_without_entries_everyone_may_call_everything() -> None:
    assert Clients().paths((), "DeleteResourcePool") == ("",)


def test_the_key_of_a_client_needs_an_entry() -> None:
    with pytest.raises(Forbidden, match="the client a has no role"):
        Clients().paths({"a"}, "Query", listed=True)
    assert Clients(["a=jobs:/dev"]).paths({"a"}, "EnqueueGangs", listed=True) == ("/dev",)


def test_roles_allow_their_rpcs_and_questions() -> None:
    clients = Clients(["jobmgr=jobs", "two=jobs:/dev", "two=placement", "eyes=read"])
    for role, rpcs in ROLES.items():
        for rpc in rpcs:
            if role == "jobs" or rpc in ROLES["jobs"]:
                assert clients.paths({"jobmgr"}, rpc) == ("",)
            else:
                with pytest.raises(Forbidden, match=r"the client jobmgr has the roles jobs"):
                    clients.paths({"jobmgr"}, rpc)
    assert clients.paths({"eyes"}, "Query") == clients.paths({"two"}, "GetActiveTasks") == ("",)
    assert clients.paths({"two"}, "EnqueueGangs") == ("/dev",) and clients.paths({"two"}, "DequeueGangs") == ("",)
    for name, rpc in (("eyes", "KillTasks"), ("nobody", "Query")):
        with pytest.raises(Forbidden):
            clients.paths({name}, rpc)


@pytest.mark.parametrize(
    ("rpc", "pool", "allowed"),
    [
        ("EnqueueGangs", "d", True), ("EnqueueGangs", "b", True), ("EnqueueGangs", "p", False),
        ("EnqueueGangs", "x", False), ("EnqueueGangs", "unknown", False), ("EnqueueGangs", "", False),
        ("CreateResourcePool", "d", True), ("CreateResourcePool", "root", False), ("UpdateResourcePool", "b", True),
        ("UpdateResourcePool", "d", False), ("DeleteResourcePool", "d", False),
    ],
)  # fmt: skip
def test_pools_at_and_below_a_path(rpc: str, pool: str, allowed: bool) -> None:
    check_pool_access(("/prod", ""), rpc, pool, dict)
    expected = nullcontext() if allowed else pytest.raises(Forbidden, match=r"may use pools of /dev")
    with expected:
        check_pool_access(("/dev",), rpc, pool, lambda: POOLS)


def test_clients_need_certificates_to_have_roles() -> None:
    with pytest.raises(ValueError, match="resmgr.client_ca"):
        ResmgrSettings(clients=("a=jobs",))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    names = ("jobmgr", "jobmgr-dev", "hostmgr", "admin", "stranger")
    subprocess.run([DEPLOY / "tls/make-ca.sh", directory, "2", *names], check=True, capture_output=True)
    return directory


CLIENTS = ("jobmgr=jobs", "jobmgr-dev=jobs:/dev", "placement=placement", "hostmgr=hosts", "admin=pools")
DEQUEUE, ENQUEUE, PUT = (RESMGR, "DequeueGangs"), (RESMGR, "EnqueueGangs"), (HOSTS, "PutHosts")
CREATE = (RESPOOL, "CreateResourcePool")


@asynccontextmanager
async def secure(
    certificates: Path, clients: tuple[str, ...] = CLIENTS, core: Core | None = None
) -> AsyncIterator[Server]:
    files = {"certificate": "resmgr.pem", "key": "resmgr.key", "client_ca": "ca.pem"}
    settings = ResmgrSettings(clients=clients, **{name: certificates / file for name, file in files.items()})
    core = core or Core()
    core.handle(commands.SetCapacity((100.0, 10.0, 1_000.0, 1_000.0), 0.0), 1)
    for name in ("dev", "prod"):
        resources = tuple(KindConfig(kind, 1.0, 10.0) for kind in KINDS)
        core.handle(commands.CreatePool(PoolConfig(f"id-{name}", name, resources=resources)), 1)
    async with leading(core, Clients(settings.clients), credentials(settings)) as server:
        yield server


async def call(certificates: Path, port: int, name: str | None, rpc: tuple[str, str], /, **request: Any) -> str:
    """The status of a call as YARPC clients make it, with its details."""
    ca = (certificates / "ca.pem").read_bytes()
    pair = [(certificates / f"client-{name}.{end}").read_bytes() for end in ("key", "pem")] if name else []
    options = (("grpc.use_local_subchannel_pool", 1),)  # a connection of its own
    async with grpc.aio.secure_channel(
        f"localhost:{port}", grpc.ssl_channel_credentials(ca, *pair), options
    ) as channel:
        method: Any = channel.unary_unary("/".join(("", *rpc)))
        try:
            await method(message(**request), timeout=20, metadata=HEADERS)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name} {error.details()}"
    return "OK"


async def test_certificates_say_who_may_do_what(certificates: Path) -> None:
    host = message(f1="h1", f2=b"".join([b"\0" * 8] * 4))
    dev, prod = ({"f1": identifier(f"id-{name}"), "f2": message(f1=[task(0, 1)])} for name in ("dev", "prod"))
    calls: list[tuple[str | None, tuple[str, str], dict[str, Any], str]] = [
        ("jobmgr", ENQUEUE, prod, "OK"), ("jobmgr", DEQUEUE, {}, "PERMISSION_DENIED DequeueGangs: the client jobmgr"),
        ("jobmgr-dev", ENQUEUE, dev, "OK"), ("jobmgr-dev", (RESPOOL, "Query"), {}, "OK"),
        ("jobmgr-dev", ENQUEUE, prod, "PERMISSION_DENIED EnqueueGangs: the client may use pools of /dev, not '/prod'"),
        ("placement", DEQUEUE, {"f1": 1}, "OK"), ("placement", ENQUEUE, dev, "PERMISSION_DENIED"),
        ("hostmgr", PUT, {"f1": host}, "OK"), ("hostmgr", CREATE, {}, "PERMISSION_DENIED"),
        ("admin", CREATE, {}, "OK"), ("admin", PUT, {"f1": host}, "PERMISSION_DENIED PutHosts: the client admin has"),
        ("stranger", (RESPOOL, "Query"), {}, "PERMISSION_DENIED Query: the client stranger has no role"),
        (None, (RESPOOL, "Query"), {}, "UNAVAILABLE"),
    ]  # fmt: skip
    async with secure(certificates) as server:
        for name, rpc, request, expected in calls:
            found = await call(certificates, server.port, name, rpc, **request)
            assert found.startswith(expected), (name, rpc)


async def test_a_header_names_nobody(certificates: Path) -> None:
    """`rpc-caller` is what a client says of itself."""
    assert ("rpc-caller", "peloton-jobmgr") in HEADERS
    async with secure(certificates, ("peloton-jobmgr=jobs",)) as server:
        found = await call(certificates, server.port, "jobmgr", ENQUEUE)
        assert found.startswith("PERMISSION_DENIED")


async def test_every_certificate_counts_where_no_client_has_a_role(certificates: Path) -> None:
    async with secure(certificates, ()) as server:
        assert await call(certificates, server.port, "stranger", (RESPOOL, "Query")) == "OK"
