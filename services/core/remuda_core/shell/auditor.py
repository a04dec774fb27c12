"""Checks all invariants of the states that this process follows, one RM after the other, in a forked child.

A violation is on record with the commit of the state (`remuda status`), a record in the event history, a metric with an
alert, and part of the health of this process. It halts nothing: what the leader has decided may be right, and only this
process's copy wrong.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_bus.health import PROCESS_HEALTH, Health
from remuda_bus.metrics import rm_label
from remuda_bus.retry import retry
from remuda_replication.child import CHILD_NICENESS, Child, ChildFailed, InProcess, confine, end_within
from remuda_replication.log import Position
from remuda_replication.rms.faults import AUDIT, Fault, describe_error
from remuda_replication.rms.halts import RECORD_RETRY

from .. import limits
from ..check import check
from ..core import Core
from . import metrics
from .rm_standby import RmStandby

log = structlog.get_logger()


class Auditor:
    """`interval_s`: between the ends and the beginnings of audits; 0: there are none. `name`: of this process.
    `answers`: whether this process answers queries about the RM: its leader does where there is no standby."""

    def __init__(
        self, bus: Bus, name: str, standbys: Mapping[str, RmStandby], interval_s: float, clock_ms: Callable[[], int],
        answers: Callable[[str], bool], in_child: bool = True, health: Health = PROCESS_HEALTH,
    ) -> None:  # fmt: skip
        self._bus = bus
        self._name = name
        self._standbys = standbys
        self._interval_s = interval_s
        self._clock_ms = clock_ms
        self._answers = answers
        self._in_child = in_child
        self._health = health
        self._last = ""

    async def run(self) -> None:
        while self._interval_s:
            await asyncio.sleep(self._interval_s)
            if (standby := self._next()) is not None:
                await self.audit(standby)

    def _next(self) -> RmStandby | None:
        """The RMs that this process follows take turns, and those that it leads and nobody else follows."""
        audited = sorted(
            rm_id for rm_id, one in self._standbys.items() if (self._answers(rm_id) if one.leads else one.hot)
        )
        if not audited:
            return None
        self._last = next((rm_id for rm_id in audited if rm_id > self._last), audited[0])
        return self._standbys[self._last]

    async def audit(self, standby: RmStandby) -> None:
        """A leader forks between two commits, and pauses for that."""
        rm_id = standby.rm_id
        source: Child | InProcess | None = None
        work = partial(_in_child if self._in_child else problem_of, standby.core)
        try:
            position, source = await standby.replica.forked(partial(Child if self._in_child else InProcess, work))
            found = b"".join([part async for part in source.output()]).decode()
        except (ChildFailed, OSError, Refused) as error:  # Refused: it does not lead any more
            log.warning("the audit was given up", rm=rm_id, error=str(error))
            metrics.AUDITS_GIVEN_UP.labels(rm_label(rm_id)).inc()
            return
        finally:
            if source is not None:
                await source.close()
        metrics.AUDITS.labels(rm_label(rm_id)).inc()
        if found:
            await self._violated(rm_id, position, found)
        else:
            self._health.violations.pop(rm_id, None)

    async def _violated(self, rm_id: str, position: Position, found: str) -> None:
        log.error("an invariant is violated", rm=rm_id, log_seq=position.seq, violation=found)
        metrics.VIOLATIONS.labels(rm_label(rm_id)).inc()
        metrics.VIOLATED_LOG_SEQ.labels(rm_label(rm_id)).set(position.seq)
        self._health.violations[rm_id] = f"commit {position.seq}: {found}"
        fault = Fault(rm_id, AUDIT, position.seq, found, self._name, self._clock_ms())
        store = partial(self._bus.put, subjects.FAULTS.name, subjects.fault_key(rm_id, AUDIT), fault.encode())
        await retry(store, RECORD_RETRY, on=BusError)


def _in_child(core: Core) -> Iterator[bytes]:
    end_within(limits.AUDIT_WITHIN_S)
    os.nice(limits.PREVIEW_NICENESS - CHILD_NICENESS)
    confine(limits.AUDIT_CPU_S, limits.AUDIT_BYTES)
    yield from problem_of(core)


def problem_of(core: Core) -> Iterator[bytes]:
    """The invariant that is violated, and where; nothing: none is."""
    try:
        check(core.state, core.index)
    except Exception as error:  # noqa: BLE001 - a state in which something cannot be looked up is violated, too
        yield describe_error(error).encode()
