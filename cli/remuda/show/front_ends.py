"""gRPC front ends, their addresses and RMs: a part of `remuda status`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
from rich.text import Text

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError

from ..client.service_ping import ServiceInstance


class FrontEnd(msgspec.Struct):
    """`rms`: the number of RMs with an open stream."""

    instance: str
    host: str = ""
    port: int = 0
    rms: int = 0
    error: str = ""


async def front_ends(bus: Bus, services: Iterable[ServiceInstance]) -> list[FrontEnd]:
    return list(await asyncio.gather(*(_ask(bus, one.instance) for one in services if one.service == "grpc")))


def line(found: list[FrontEnd]) -> Text:
    shown = [one.error or f"{one.host}:{one.port}, RMs {one.rms}" for one in found]
    return Text.assemble(("grpc     ", "dim"), "   ".join(shown))


async def _ask(bus: Bus, instance: str) -> FrontEnd:
    try:
        answer = await bus.request(subjects.front_end(instance), timeout_s=limits.PROCESS_QUERY_TIMEOUT_S)
    except BusError as error:
        return FrontEnd(instance, error=str(error))
    return msgspec.convert({"instance": instance, **msgspec.json.decode(answer.payload)}, FrontEnd)
