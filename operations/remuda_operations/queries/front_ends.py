"""gRPC front ends and web services: addresses, and the number of RMs that are connected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError
from remuda_operations.queries.services import ServiceInstance, services


class FrontEnd(msgspec.Struct):
    """`rms`: of a gRPC front end, the number of RMs with an open stream. `scheme`: of a web service."""

    instance: str
    host: str = ""
    port: int = 0
    rms: int = 0
    scheme: str = ""
    error: str = ""


async def front_ends(bus: Bus, found: Iterable[ServiceInstance] | None = None, service: str = "grpc") -> list[FrontEnd]:
    """`found`: the running services, if they are known. `service`: grpc or web."""
    instances = [one.instance for one in (await services(bus) if found is None else found) if one.service == service]
    return list(await asyncio.gather(*(_ask(bus, instance, service) for instance in instances)))


async def _ask(bus: Bus, instance: str, service: str) -> FrontEnd:
    try:
        answer = await bus.request(subjects.front_end(instance, service), timeout_s=limits.PROCESS_QUERY_TIMEOUT_S)
    except BusError as error:
        return FrontEnd(instance, error=str(error))
    return msgspec.convert({"instance": instance, **msgspec.json.decode(answer.payload)}, FrontEnd)
