"""Clients that take more than their part of a process, over real gRPC. Other callers go on. The bounds are small."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from integrations.peloton.tests.test_access import call, certificates, secure
from integrations.peloton.tests.test_server import message
from remuda_peloton import commands, limits
from remuda_peloton.core import Core
from remuda_peloton.rules.pools import InvalidPool, PoolConfig
from remuda_peloton.shell.front import RESMGR, RESPOOL
from remuda_proto.peloton.api.v0.respool import respool_pb2

__all__ = ["certificates"]
QUERY, DEQUEUE = f"/{RESPOOL}/Query", f"/{RESMGR}/DequeueGangs"
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
WITHIN_S = 20.0


@asynccontextmanager
async def hostile(certificates: Path, port: int) -> AsyncIterator[Any]:
    """A connection with the certificate of a stranger."""
    ca, key, certificate = (
        (certificates / name).read_bytes() for name in ("ca.pem", "client-stranger.key", "client-stranger.pem")
    )
    small_window = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536))
    options = (
        OWN_CONNECTION,
        *small_window,
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
    )
    tls = grpc.ssl_channel_credentials(ca, key, certificate)
    async with grpc.aio.secure_channel(f"localhost:{port}", tls, options) as channel:
        yield channel


async def status(rpc: Any) -> str:
    try:
        async with asyncio.timeout(WITHIN_S):
            await rpc
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {error.details()}"
    return "OK"


async def first_status(channel: Any, wanted: Callable[[str], bool]) -> str:
    """Ask again until the status is a wanted one."""
    async with asyncio.timeout(WITHIN_S):
        while not wanted(found := await status(channel.unary_unary(QUERY)(b""))):
            pass
    return found


async def others_go_on(certificates: Path, port: int) -> None:
    assert await call(certificates, port, "admin", (RESPOOL, "Query")) == "OK"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


async def test_more_rpcs_than_a_caller_may_have(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RPCS_OF_CALLER", 3)
    poll = message(f1=1, f2=60_000)
    async with secure(certificates, ()) as server, hostile(certificates, server.port) as channel:
        polls = [asyncio.ensure_future(status(channel.unary_unary(DEQUEUE)(poll))) for _ in range(9)]
        await until(lambda: sum(one.done() for one in polls) == 6)
        refused = {one.result() for one in polls if one.done()}
        assert refused == {"RESOURCE_EXHAUSTED stranger: 3 RPCs are under way, expected at most as many"}
        await others_go_on(certificates, server.port)
        for one in polls:
            one.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        assert (await first_status(channel, lambda found: found == "OK")) == "OK"


async def test_requests_that_are_never_sent(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An RPC that is opened without a request ends; one that ends without a request is refused."""
    monkeypatch.setattr(limits, "RECEIVED_WITHIN_S", 0.2)
    async with secure(certificates, ()) as server, hostile(certificates, server.port) as channel:
        opened = [channel.stream_stream(QUERY)() for _ in range(limits.RECEIVED_AT_ONCE + 1)]
        await others_go_on(certificates, server.port)
        for one in opened:
            assert (await status(one.read())).startswith("DEADLINE_EXCEEDED no request within")
        ended = channel.stream_stream(QUERY)()
        await ended.done_writing()
        assert await status(ended.read()) == "INVALID_ARGUMENT the RPC has no request, expected one"


async def test_requests_that_are_too_large(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JSON_BYTES", 1_000)
    async with secure(certificates, ()) as server, hostile(certificates, server.port) as channel:
        huge = bytes(limits.REQUEST_BYTES + 1)
        assert (await status(channel.unary_unary(QUERY)(huge))).startswith("RESOURCE_EXHAUSTED")
        for text, expected in ((b'{"x": "%s"}' % bytes(1_000), "INVALID_ARGUMENT"), (b"[" * 999, "INVALID_ARGUMENT")):
            rpc = channel.unary_unary(QUERY)(text, metadata=(("rpc-encoding", "json"),))
            assert (await status(rpc)).startswith(expected)
        await others_go_on(certificates, server.port)


async def test_a_client_that_does_not_read(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has asked for counts until it reads it."""
    core = Core()
    for number in range(20):
        core.handle(commands.CreatePool(PoolConfig(f"p{number}", f"p{number}", description="x" * 100_000)), 1)
    monkeypatch.setattr(limits, "BYTES_OF_CALLER", 3_000_000)
    async with secure(certificates, (), core) as server, hostile(certificates, server.port) as channel:
        unread = channel.stream_stream(QUERY)()
        await unread.write(b"")
        found = await first_status(channel, lambda found: found != "OK")
        assert found.startswith("RESOURCE_EXHAUSTED stranger: 2") and "bytes of its requests" in found
        await others_go_on(certificates, server.port)
        assert len(respool_pb2.QueryResponse.FromString(await unread.read()).resourcePools) == 23
        assert await unread.read() is grpc.aio.EOF
        assert await status(channel.unary_unary(QUERY)(b"")) == "OK"


async def test_long_polls_end(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_peloton.shell.request_handler.LONG_POLL_S", 0.05)
    async with secure(certificates, ()) as server, hostile(certificates, server.port) as channel:
        began = time.monotonic()
        assert await channel.unary_unary(DEQUEUE)(message(f1=1, f2=2**32 - 1), timeout=WITHIN_S) == b""
        assert time.monotonic() - began < WITHIN_S


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "\x1b[2J", "\x00", "a\u202eb", "x" * (limits.NAME_CHARACTERS + 1)])
def test_names_that_are_no_names_of_pools(name: str) -> None:
    core = Core()
    assert core.handle(commands.CreatePool(PoolConfig("a", "a")), 1)[1] == "a"
    for command in (
        commands.CreatePool(PoolConfig("b", name)), commands.UpdatePool(PoolConfig("a", name)),
        commands.UpdatePool(PoolConfig("a", name), force=True),
    ):  # fmt: skip
        facts, answer = core.handle(command, 1)
        assert isinstance(answer, InvalidPool) and facts == []


def test_pools_below_each_other_have_a_bound() -> None:
    core, parent = Core(), "root"
    for depth in range(limits.POOL_DEPTH):
        parent = core.handle(commands.CreatePool(PoolConfig(f"p{depth}", "p", parent)), 1)[1]
        assert parent == f"p{depth}"
    _, answer = core.handle(commands.CreatePool(PoolConfig("deepest", "p", parent)), 1)
    assert isinstance(answer, InvalidPool) and answer.code == "too_deep"
