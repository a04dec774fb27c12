"""The process of Peloton's resource manager: leads or follows the log of its cluster, and answers RPCs either way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import grpc
import msgspec
import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_bus.settings import server_pem, shown_host
from remuda_replication.leader import Leader
from remuda_replication.members import Members
from remuda_replication.rms.halts import Halts
from remuda_replication.standby import Standby, Standbys

from ..core import Core
from ..rules.access import Clients
from . import bus_server, hosts_file, metrics, pool_changes
from .front import Front
from .machine import ResmgrMachine
from .operator_queries import OperatorQueries
from .request_handler import RequestHandler
from .server import Server
from .settings import ResmgrSettings

log = structlog.get_logger()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


async def main(bus: Bus, settings: ResmgrSettings, *, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
    """Runs until an error, after which the process is started again. Raises OSError when the port is taken,
    ValueError for a wrong certificate or key."""
    log_id = subjects.peloton_log(settings.cluster)
    members = Members(bus, settings.instance, settings.standbys, subjects.member_kind(log_id))
    halts = Halts(bus, members.name, clock_ms)
    core = Core(settings.rules())
    handler = RequestHandler(bus, log_id, core, lambda: any(one.hot for one in standbys.by_log.values()))

    def make(log_id: str) -> Standby:
        standby = Standby(bus, ResmgrMachine(log_id, core, settings.periods()), members, clock_ms, settings)
        standby.applied = handler.applied

        def led_by(leader: Leader | None) -> None:
            handler.leader = leader

        standby.leads_by = led_by
        return standby

    standbys = Standbys(bus, members, halts, clock_ms, make)
    front = Front(handler, Clients(settings.clients))
    server = Server(front, settings.address, credentials(settings))

    async def about(_: Message) -> bytes:
        leads = any(one.leads for one in standbys.by_log.values())
        host = settings.advertise or shown_host(settings.host)
        return msgspec.json.encode({"host": host, "port": server.port, "scheme": "grpc", "leads": leads})

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(halts.watch())
            members.start(tasks)
            tasks.create_task(metrics.measure_always(core))
            await server.start()
            await bus.serve(subjects.front_end(settings.instance, "resmgr"), about, "front-end")
            await OperatorQueries(bus, settings.cluster, handler, core).serve()
            await bus_server.serve(bus, settings.cluster, front)
            administrators = settings.scheduler_administrators()
            await pool_changes.PoolChanges(bus, settings.cluster, handler, settings.pools_file, administrators).serve()
            if settings.pools_file is not None:
                tasks.create_task(pool_changes.follow(settings.pools_file, handler, lambda: core.state))
            log.info("listens for gRPC", host=settings.host, port=server.port)
            tasks.create_task(standbys.stand_by(log_id))
            if settings.hosts_file is not None:
                tasks.create_task(hosts_file.follow(settings.hosts_file, handler, lambda: core.state))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await server.stop()


def credentials(settings: ResmgrSettings) -> grpc.ServerCredentials | None:
    """The TLS credentials of the server; None: it has no certificate. Raises ValueError when a file cannot be read or
    is not in PEM form."""
    pem = server_pem("resmgr", settings)
    if pem is None:
        return None
    pair = (pem.key, pem.certificate)
    return grpc.ssl_server_credentials([pair], pem.client_ca, require_client_auth=pem.client_ca is not None)
