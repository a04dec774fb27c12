"""The Scheduler API server of resource managers: puts the parts together. Only the holder of the lease works; others
wait.

A process that has lost its lease ends, and is born again as a standby: doubt about what it still does is worth less
than a start.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, BusError, Message, Reply
from remuda_bus.halts import Halts
from remuda_bus.lease import Lease
from remuda_bus.process import Settings
from remuda_rmproxy import limits
from remuda_rmproxy.dead_letters import DeadLetters
from remuda_rmproxy.forward import Forwarder
from remuda_rmproxy.heartbeats import Heartbeats
from remuda_rmproxy.register import Registrar
from remuda_rmproxy.session import Sessions
from remuda_rmproxy.tellers import Tellers
from remuda_rmproxy.wanted import ask_for_reports
from remuda_rmproxy.witness import Witness

log = structlog.get_logger()


class LeaseLost(BusError):
    """Another process may forward and tell now."""


async def main(bus: Bus, settings: Settings, *, core_within_s: float = limits.CORE_WITHIN_S) -> None:
    """Runs until cancelled. Raises BusError when the lease is lost or a log cannot be read."""
    lease = Lease(bus, subjects.RMPROXY_LEASE, settings.instance)
    log.info("waiting for the lease", lease=subjects.RMPROXY_LEASE)
    health.OWN.say("stands by: another process holds the lease")
    await lease.acquire()
    try:
        await _work(bus, lease, settings.instance, core_within_s)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await lease.release()


async def _work(bus: Bus, lease: Lease, instance: str, core_within_s: float) -> None:
    sessions, dead_letters = Sessions(), DeadLetters(bus)
    halts = Halts(bus, instance, lambda: time.time_ns() // 1_000_000)
    forwarder = Forwarder(bus, sessions, dead_letters, halts)
    witness = Witness(bus, sessions, halts)
    registrar = Registrar(bus, sessions, dead_letters, witness, forwarder, core_within_s)
    heartbeats = Heartbeats(bus, sessions)
    async with asyncio.TaskGroup() as group:
        tellers = Tellers(bus, group, halts, registrar.decided)

        async def register(message: Message) -> Reply:
            return await registrar.register(message, tellers)

        async def deregister(message: Message) -> bytes:
            return await registrar.deregister(message, tellers)

        group.create_task(_until_lost(lease))
        group.create_task(_watch(bus, sessions, tellers))
        group.create_task(halts.watch())
        group.create_task(forwarder.run())
        group.create_task(forwarder.trim())
        group.create_task(tellers.trim())
        group.create_task(heartbeats.run())
        group.create_task(ask_for_reports(bus, sessions))
        await bus.subscribe(subjects.heartbeat("*"), heartbeats.heard)
        await bus.subscribe(subjects.heartbeat("*"), witness.heard)
        await bus.serve(subjects.register("*"), register, "register")
        await bus.serve(subjects.deregister("*"), deregister, "deregister")
        health.OWN.say("holds the lease: forwards requests, tells RMs")


async def _until_lost(lease: Lease) -> None:
    await lease.lost()
    raise LeaseLost("the lease was lost")


async def _watch(bus: Bus, sessions: Sessions, tellers: Tellers) -> None:
    async for entry in bus.watch(subjects.RMS.name):
        rm = sessions.tell(subjects.rm_of_key(entry.key), entry.value)
        if rm is not None:
            tellers.follow(rm.rm_id)
