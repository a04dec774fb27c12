"""Has the consumers of an RM made again that are gone although its registration is in force."""

from __future__ import annotations

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, ConsumerGone, Headers, Refused
from remuda_bus.retry import retry
from remuda_bus.untrusted import number_in
from remuda_sdk.resource_manager import limits
from remuda_sdk.resource_manager.errors import RegistrationFailed, Superseded
from remuda_sdk.resource_manager.status_codes import INTERNAL, NOT_REGISTERED, REFUSED, TOO_MANY

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
    await retry(ask, limits.RESUME_RETRY, on=BusError, report=report)


def _check_not_over(rm_id: str, registration: int, metadata: Headers) -> None:
    """Raises Superseded where the consumer that is there now is that of a later registration, or of none."""
    other = number_in(metadata, subjects.REGISTRATION, registration)
    over = f"registration {registration} of {rm_id!r} is over: another instance has"
    if other == subjects.NO_REGISTRATION:
        raise Superseded(f"{over} deregistered it")
    if other > registration:
        raise Superseded(f"{over} registered, as {other}")
