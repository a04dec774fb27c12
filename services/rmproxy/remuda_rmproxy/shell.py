"""The API server for resource managers: puts the rooms together. Only the process that holds the lease works; the
others stand by.

A process that has lost its lease ends and is started again as a standby. A start is cheaper than finding out which of
its work is still in progress.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from remuda_bus import health, subjects
from remuda_bus.bus import Bus
from remuda_replication.lease import Lease
from remuda_replication.process import Settings
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.administration.operator_actions import OperatorActions
from remuda_rmproxy.groups.choice import groups_by
from remuda_rmproxy.guests.guest_request import read_admissions
from remuda_rmproxy.guests.guest_requests import GuestRequests
from remuda_rmproxy.inbound.configuration_resolver import ConfigurationResolver
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.inbound.forwarder import Forwarder
from remuda_rmproxy.inbound.forwarding_progress import ForwardingProgress
from remuda_rmproxy.inbound.request_trimmer import RequestTrimmer
from remuda_rmproxy.inbound.request_worker import RequestWorker
from remuda_rmproxy.outbound.publishers import CallbackPublishers
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.request_times import RequestTimes
from remuda_rmproxy.sessions.allowed_rms import AllowedRms
from remuda_rmproxy.sessions.cursor_check import CursorCheck
from remuda_rmproxy.sessions.forgetting import RmForgetter
from remuda_rmproxy.sessions.heartbeat_monitor import HeartbeatMonitor
from remuda_rmproxy.sessions.pending_answers import PendingAnswers
from remuda_rmproxy.sessions.record_watch import RecordWatch
from remuda_rmproxy.sessions.registration import Registrar
from remuda_rmproxy.sessions.report_requests import request_reports
from remuda_rmproxy.sessions.session_decisions import SessionDecisions
from remuda_rmproxy.settings import RmproxySettings

log = structlog.get_logger()


async def main(bus: Bus, settings: Settings, *, core_timeout_s: float = limits.CORE_TIMEOUT_S) -> None:
    """Runs until cancelled. Raises BusError when the lease is lost."""
    lease = Lease(bus, subjects.RMPROXY_LEASE, settings.instance)
    log.info("waiting for the lease", lease=subjects.RMPROXY_LEASE)
    health.PROCESS_HEALTH.set_status("stands by: another process holds the lease")
    await lease.acquire()
    try:
        own = settings if isinstance(settings, RmproxySettings) else RmproxySettings(instance=settings.instance)
        await _work(bus, lease, own, core_timeout_s)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await lease.release()


async def _work(bus: Bus, lease: Lease, settings: RmproxySettings, core_timeout_s: float) -> None:
    instance = settings.instance
    registry = RmRegistry()
    halts = Halts(bus, instance, clock_ms)
    faults = Faults(bus, halts, instance, clock_ms)
    resolver = ConfigurationResolver(bus)
    groups = groups_by(settings)
    progress = ForwardingProgress()
    pending_answers = PendingAnswers()
    cursor_check = CursorCheck(bus, registry, halts)
    heartbeats = HeartbeatMonitor(bus, registry)
    forgetter = RmForgetter(bus, registry, halts, instance, clock_ms, settings.forget_after_days * subjects.DAY_S)
    async with asyncio.TaskGroup() as group:

        def note_dead_letter(rm_id: str, callback_seq: int) -> None:
            publishers.note_dead_letter(rm_id, callback_seq)

        dead_letters = DeadLetters(bus, registry, note_dead_letter)
        decisions = SessionDecisions(bus, dead_letters, pending_answers)
        times = RequestTimes()
        publishers = CallbackPublishers(bus, group, halts, faults, decisions.apply, times)
        worker = RequestWorker(bus, registry, dead_letters, halts, resolver, groups, times)
        forwarder = Forwarder(bus, registry, halts, faults, worker, progress)
        registrar = Registrar(
            bus, registry, halts, cursor_check, forwarder, resolver, publishers, pending_answers, core_timeout_s,
            settings.max_rms, AllowedRms(settings.allowed_rms),
        )  # fmt: skip
        actions = OperatorActions(
            bus, halts, pending_answers, settings.scheduler_administrators(), instance, clock_ms, core_timeout_s
        )
        guests = GuestRequests(bus, halts, read_admissions(settings.guests))
        watch = RecordWatch(registry, publishers, heartbeats, cursor_check, worker, dead_letters)

        group.create_task(lease.work_until_lost())
        group.create_task(watch.run(bus))
        group.create_task(cursor_check.run())
        group.create_task(forgetter.run())
        group.create_task(halts.watch())
        group.create_task(forwarder.run())
        group.create_task(RequestTrimmer(bus, registry, progress).run())
        group.create_task(publishers.trim())
        group.create_task(heartbeats.run())
        group.create_task(request_reports(bus, registry))
        await bus.subscribe(subjects.heartbeat("*"), heartbeats.on_heartbeat)
        await bus.subscribe(subjects.heartbeat("*"), cursor_check.on_heartbeat)
        await bus.serve(subjects.register("*"), registrar.register, "register", lambda: lease.valid)
        await bus.serve(subjects.deregister("*"), registrar.deregister, "deregister", lambda: lease.valid)
        for action in subjects.ACTIONS:
            subject = subjects.administration("*", "*", "*", action)
            await bus.serve(subject, actions.act, action, lambda: lease.valid)
        for kind in subjects.GUEST_KINDS:
            await bus.serve(subjects.guest_request("*", "*", kind), guests.append, f"guest_{kind}", lambda: lease.valid)
        health.PROCESS_HEALTH.set_status("holds the lease: forwards requests, publishes callbacks")


def clock_ms() -> int:
    return time.time_ns() // 1_000_000
