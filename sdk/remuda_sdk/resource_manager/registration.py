"""The registration of an RM (000, RegisterResourceManagerRequest): the request, the heartbeats that show that the RM is
alive, and the consumers that belong to the registration.

A consumer that is gone although its registration is in force is made again by rmproxy (`resume`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, ConsumerGone, Headers, Refused
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.untrusted import number_in
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments

# Heartbeats that report the callback cursor of an RM that has not declared a heartbeat interval. They cost little.
POSITION_REPORT_INTERVAL_S = 5.0
# After a consumer that is gone and could not be made again yet, because no rmproxy answers: soon at first, because a
# take-over takes a moment, then seldom enough for thousands of RMs. Without end: the RM loses nothing meanwhile.
RESUME_RETRY = RetryPolicy(0.2, longest_pause_s=5.0)
# Between a consumer that was made again and joining it: something that deletes it again and again must not keep rmproxy
# busy.
RESUMED_PAUSE_S = 0.1

# Keys of extraConfig at the registration (000, extraConfig).
EVENTS = "events"  # the RM reads events: a consumer is created for it
RESYNC = "resync"  # how an RM that registers again is synchronised
HEARTBEAT_INTERVAL = "heartbeat.interval"

Resync = Literal["report", "replay"]
RESYNCS: tuple[Resync, ...] = get_args(Resync)


def registration_request(
    rm_id: str,
    policy_group: str,
    config: str,
    extra_config: Mapping[str, str] | None,
    version: str,
    build_info: Mapping[str, str] | None,
    resync: Resync | None,
    heartbeat_s: float | None,
) -> si.RegisterResourceManagerRequest:
    """The request, from the arguments of `ResourceManager.connect`. Raises ValueError, which names the argument."""
    request = si.RegisterResourceManagerRequest(
        rmID=arguments.text("rm_id", rm_id),
        policyGroup=arguments.text("policy_group", policy_group),
        config=arguments.text("config", config),
        extraConfig=arguments.text_map("extra_config", extra_config),
        version=arguments.text("version", version),
        buildInfo=arguments.text_map("build_info", build_info),
    )
    if resync is not None:
        request.extraConfig[RESYNC] = arguments.one_of("resync", resync, RESYNCS)
    if heartbeat_s is not None:
        interval_ms = round(arguments.seconds("heartbeat_s", heartbeat_s, 0.001) * 1_000)
        request.extraConfig[HEARTBEAT_INTERVAL] = f"{interval_ms}ms"
    return request


class Heartbeat:
    """Publishes a heartbeat every `interval_s` seconds, until it is stopped. A heartbeat shows that the RM is alive,
    and reports the callback cursor. `headers` returns the headers of the next heartbeat."""

    def __init__(self, bus: Bus, rm_id: str, interval_s: float, headers: Callable[[], Headers]) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._interval_s = interval_s
        self._headers = headers
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start publishing. Idempotent."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self.run(), name=f"heartbeat of {self._rm_id}")

    async def publish_once(self) -> None:
        with contextlib.suppress(BusError):  # the next one may get through
            await self._bus.publish(subjects.heartbeat(self._rm_id), b"", self._headers())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self.publish_once()
            await asyncio.sleep(self._interval_s)


log = structlog.get_logger()


async def resume(bus: Bus, rm_id: str, registration: int, gone: ConsumerGone) -> None:
    """Ask rmproxy to make the consumers of this registration again. Returns when they exist, and waits for that
    through outages. Raises Superseded when the registration is over; RegistrationFailed when this rmproxy cannot make
    consumers again."""
    _check_not_over(rm_id, registration, gone.metadata or {})
    headers = {subjects.REGISTRATION: str(registration), subjects.RESUME: "true"}

    async def ask() -> None:
        try:
            await bus.request(subjects.register(rm_id), b"", headers)
        except Refused as refusal:
            if refusal.code in (NOT_REGISTERED, REFUSED):
                raise Superseded(refusal.reason) from None
            if refusal.code < INTERNAL and refusal.code != TOO_MANY:
                reason = f"the consumer of registration {registration} of {rm_id!r} is gone: {refusal.reason}"
                raise RegistrationFailed(reason, refusal.code) from None
            raise

    def report(error: Exception) -> None:
        log.warning("no scheduler makes the consumer again yet", rm=rm_id, error=str(error))

    log.warning("the consumer of this RM is gone", rm=rm_id, registration=registration)
    await retry(ask, RESUME_RETRY, on=BusError, report=report)


def _check_not_over(rm_id: str, registration: int, metadata: Headers) -> None:
    """Raises Superseded where the consumer that is there now is that of a later registration, or of none."""
    other = number_in(metadata, subjects.REGISTRATION, registration)
    over = f"registration {registration} of {rm_id!r} is over: another instance has"
    if other == subjects.NO_REGISTRATION:
        raise Superseded(f"{over} deregistered it")
    if other > registration:
        raise Superseded(f"{over} registered, as {other}")


class Superseded(Exception):
    """The registration is over: another instance has registered under this rmID, or has deregistered it, or the RM was
    forgotten. This instance receives no callbacks any more, and the scheduler ignores its requests."""


class ReportRequested(Exception):
    """The scheduler has lost the state of this RM and requests a report, and the RM has no handler for that
    (`ResourceManager.on_report_requested`)."""


class RegistrationFailed(Exception):
    """The scheduler did not register the RM. `code`: 400 malformed request, 422 refused by the configuration or the
    core, 503 outage; the others are listed in docs/wire-contract.md, section Errors."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(f"{reason} ({code})")
        self.reason = reason
        self.code = code


NOT_REGISTERED: Final = 404
REFUSED: Final = 409
INTERNAL: Final = 500  # from here on, the request itself was not refused
TOO_MANY: Final = 429
WRONG_CONFIGURATION: Final = 422  # of a registration
OUTAGE: Final = 503
