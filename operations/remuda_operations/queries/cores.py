"""Core processes: the RMs that each leads and follows, and the lag of followers."""

from __future__ import annotations

import asyncio

import msgspec

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError


class RmOfCore(msgspec.Struct):
    """`log_seq`, `at_ms`: sequence and time of the last commit that the core has read."""

    rm: str
    leads: bool
    log_seq: int
    at_ms: int


class Core(msgspec.Struct):
    instance: str
    rms: list[RmOfCore] = []
    error: str = ""

    @property
    def leads(self) -> list[str]:
        return sorted(one.rm for one in self.rms if one.leads)


async def cores(bus: Bus) -> list[Core]:
    prefix = f"{subjects.MEMBER}."
    keys = [entry.key for entry in await bus.entries(subjects.LEASES.name) if entry.key.startswith(prefix)]
    return list(await asyncio.gather(*(_ask(bus, key.removeprefix(prefix)) for key in keys)))


async def _ask(bus: Bus, instance: str) -> Core:
    try:
        answer = await bus.request(subjects.core_process(instance), timeout_s=limits.PROCESS_QUERY_TIMEOUT_S)
    except BusError as error:
        return Core(instance, error=str(error))
    return msgspec.json.decode(answer.payload, type=Core)


def behind_s(cores: list[Core]) -> dict[tuple[str, str], float]:
    """Lag in seconds by instance and RM, of followers that have not read the leader's last commit."""
    leaders = {one.rm: one for core in cores for one in core.rms if one.leads}
    return {
        (core.instance, one.rm): max(0.0, (leaders[one.rm].at_ms - one.at_ms) / 1_000)
        for core in cores
        for one in core.rms
        if one.rm in leaders and one.log_seq < leaders[one.rm].log_seq
    }
