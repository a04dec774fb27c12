"""gRPC front ends: addresses, and the number of RMs that are connected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError
from remuda_bus.queries.services import ServiceInstance, services


class FrontEnd(msgspec.Struct):
    """`rms`: the number of RMs with an open stream."""

    instance: str
    host: str = ""
    port: int = 0
    rms: int = 0
    error: str = ""


async def front_ends(bus: Bus, found: Iterable[ServiceInstance] | None = None) -> list[FrontEnd]:
    """`found`: the running services, if they are known."""
    instances = [one.instance for one in (await services(bus) if found is None else found) if one.service == "grpc"]
    return list(await asyncio.gather(*(_ask(bus, instance) for instance in instances)))


async def _ask(bus: Bus, instance: str) -> FrontEnd:
    try:
        answer = await bus.request(subjects.front_end(instance), timeout_s=limits.PROCESS_QUERY_TIMEOUT_S)
    except BusError as error:
        return FrontEnd(instance, error=str(error))
    return msgspec.convert({"instance": instance, **msgspec.json.decode(answer.payload)}, FrontEnd)
