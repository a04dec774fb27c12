"""A forwarder over a bus, as a process has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from remuda_bus.bus import Bus
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy.groups.group_resolver import FROM_REQUEST, Groups
from remuda_rmproxy.inbound.configuration_resolver import ConfigurationResolver
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.inbound.forwarder import Forwarder
from remuda_rmproxy.inbound.forwarding_progress import ForwardingProgress
from remuda_rmproxy.inbound.request_trimmer import RequestTrimmer
from remuda_rmproxy.inbound.request_worker import RequestWorker
from remuda_rmproxy.records.registry import RmRegistry


def forwarder_of(
    bus: Bus, registry: RmRegistry | None = None, halts: Halts | None = None, groups: Groups = FROM_REQUEST
) -> Forwarder:
    registry = RmRegistry() if registry is None else registry
    halts = halts or Halts(bus, "test", lambda: 0)
    worker = RequestWorker(bus, registry, DeadLetters(bus, registry), halts, ConfigurationResolver(bus), groups)
    faults = Faults(bus, halts, "test", count(1).__next__)
    return Forwarder(bus, registry, halts, faults, worker, ForwardingProgress())


def trimmer_of(forwarder: Forwarder) -> RequestTrimmer:
    return RequestTrimmer(forwarder._bus, forwarder._registry, forwarder._progress)


@asynccontextmanager
async def forwarding(forwarder: Forwarder) -> AsyncIterator[None]:
    """Forwards and trims requests until the block is left."""
    tasks = [asyncio.create_task(forwarder.run()), asyncio.create_task(trimmer_of(forwarder).run())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
