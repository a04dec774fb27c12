"""The process of the gRPC front end: a client of the bus with the rights of every RM, and a server of gRPC."""

from __future__ import annotations

import asyncio
import json

import structlog

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, Handler, Message
from remuda_bus.settings import shown_host
from remuda_grpc import metrics
from remuda_grpc.callers import Callers
from remuda_grpc.identity import Clients
from remuda_grpc.operator_rpcs import OperatorRpcs
from remuda_grpc.resource_manager import ResourceManager
from remuda_grpc.scheduler import Scheduler
from remuda_grpc.server import Server
from remuda_grpc.sessions import Sessions
from remuda_grpc.settings import GrpcSettings
from remuda_operations.operator_api import endpoints
from remuda_operations.operator_api.methods import methods as operator_methods
from remuda_operations.system_user import local_operator

log = structlog.get_logger()


async def main(bus: Bus, settings: GrpcSettings) -> None:
    """Runs until cancelled. Raises OSError when the port is taken, ValueError for a wrong certificate."""
    sessions = Sessions(bus, settings.instance)
    metrics.SESSIONS.set_function(lambda: len(sessions))
    clients = Clients(settings.client_ca is not None, settings.clients)
    methods = operator_methods()
    local = local_operator(settings.host, settings.nats_seed is not None)
    operator_rpcs = OperatorRpcs(bus, methods, Callers(clients, settings.operators, local))
    scheduler, resource_manager = Scheduler(bus, sessions, clients), ResourceManager(bus, sessions, clients)
    server = Server(settings, scheduler, resource_manager, operator_rpcs)
    watching = asyncio.get_running_loop().create_task(sessions.run(), name="claims of front ends")
    try:
        await server.start()
        await bus.serve(subjects.front_end(settings.instance), _about(server, settings, sessions), "front-end")
        await endpoints.serve(bus, methods)
        await server.set_serving(True)
        log.info("listens for gRPC", host=settings.host, port=server.port)
        health.PROCESS_HEALTH.set_status(f"listens for gRPC on port {server.port}")
        await watching
    finally:
        watching.cancel()
        await server.set_serving(False)
        await sessions.close()
        await server.stop()


def _about(server: Server, settings: GrpcSettings, sessions: Sessions) -> Handler:
    async def about(_: Message) -> bytes:
        return json.dumps({"host": shown_host(settings.host), "port": server.port, "rms": len(sessions)}).encode()

    return about
