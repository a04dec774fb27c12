"""Connects to the scheduler at a URL: in this process, over NATS or over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from importlib import import_module
from typing import Final, Protocol

from remuda_bus import nats, subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import Access
from remuda_sdk.api.interface import SchedulerAPI
from remuda_sdk.api.scheduler import BusOfRm, BusScheduler, Options, SchedulerOfSessions

# The scheduler stands above the SDK, so it is imported by name, and only for `local:`.
IN_PROCESS: Final = "remuda.local.in_process"
EXPECTED: Final = "local:, local:NAME, nats://HOST:PORT, tls://HOST:PORT, grpc://HOST:PORT or grpcs://HOST:PORT"


def connect(
    url: str,
    *,
    access: Access | None = None,
    heartbeat_s: float | None = None,
    connect_within_s: float = 10.0,
    register_within_s: float = 20.0,
    retry_for_s: float = 30.0,
) -> SchedulerAPI:
    """The scheduler at a URL. Nothing happens before `async with`.

    `url`: `local:` for a scheduler of this object alone, in this process; `local:NAME` for a scheduler in this process
    that all users of the name in one event loop share; `nats://host:port` (`tls://`) for a scheduler over NATS;
    `grpc://host:port` (`grpcs://` with TLS) for a scheduler over gRPC. Several servers are separated by commas.

    `access`: keys and certificates (default: what the environment names, as REMUDA_NATS_CA). `heartbeat_s`: over NATS,
    the RM sends heartbeats this often; over gRPC the front end sends them. `connect_within_s`: the time limit of the
    first connection. `register_within_s`: the time limit of a registration. `retry_for_s`: how long an update is
    retried while the scheduler is away. All in seconds.

    Raises ValueError for any other URL."""
    options = Options(access, heartbeat_s, connect_within_s, register_within_s, retry_for_s)
    return scheduler_at(url, options)


def scheduler_at(url: str, options: Options) -> SchedulerOfSessions:
    """The scheduler at a URL, as `connect`. Raises ValueError for a URL that no transport takes."""
    scheme, _, rest = url.partition(":")
    if scheme == "local" and not rest.startswith("/"):
        return BusScheduler(partial(_start_local, _in_process_scheduler(), rest), options)
    if scheme in ("nats", "tls") and rest.startswith("//"):
        return BusScheduler(partial(_start_nats, url, options), options)
    if scheme in ("grpc", "grpcs") and rest.startswith("//"):
        from remuda_sdk.api.grpc_scheduler import GrpcScheduler  # gRPC starts threads and takes memory

        return GrpcScheduler(url, options)
    raise ValueError(f"url {url!r}: expected {EXPECTED}")


class InProcess(Protocol):
    """A running scheduler of this process."""

    def connect(self) -> Bus:
        """A connection to its bus."""
        ...


Start = Callable[[str], AbstractAsyncContextManager[InProcess]]


def _in_process_scheduler() -> Start:
    start: Start = import_module(IN_PROCESS).scheduler
    return start


async def _start_local(start: Start, name: str, stack: AsyncExitStack) -> BusOfRm:
    scheduler = await stack.enter_async_context(start(name))

    async def bus_of(_: str) -> Bus:
        return scheduler.connect()

    return bus_of


async def _start_nats(url: str, options: Options, _: AsyncExitStack) -> BusOfRm:
    async def bus_of(rm_id: str) -> Bus:
        name = f"rm-{subjects.key_of(subjects.check_rm_id(rm_id))}"
        return await nats.connect(url, name, timeout_s=options.connect_within_s, access=options.access)

    return bus_of
