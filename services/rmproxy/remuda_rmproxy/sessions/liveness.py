"""Decides from heartbeats which RMs are connected, lost or gone, of those that announce heartbeats. Pure: time is an
argument.

After a start this process does not know the last report to the core. After a stall it does not either: another process
may have worked meanwhile. Then the first heartbeat of each RM is reported as "back", and silence counts from
that moment. The core ignores a report of what it knows. "back" is repeated at intervals.

A heap holds the time at which each RM is to be evaluated next. A heartbeat changes that time only where there is
something to report.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from remuda_rmproxy.limits import (
    BACK_REPORT_INTERVAL_S,
    LIVENESS_HEAP_SLACK,
    LIVENESS_INTERVAL_S,
    LOST_AFTER_INTERVALS,
    MONITOR_STALL_S,
)
from remuda_rmproxy.records.extra_config import AnnouncedHeartbeat
from remuda_rmproxy.records.rm_record import RmRecord

ConnectionState = Literal["back", "lost", "gone"]
NEVER = float("inf")


@dataclass(slots=True, eq=False)
class _TrackedRm:
    record: RmRecord
    heartbeat: AnnouncedHeartbeat
    last_heartbeat_at: float  # or when tracking began
    reported: ConnectionState | None = None  # None: not known
    reported_at: float = 0.0
    has_sent_any: bool = False
    due_at: float = NEVER  # of the entry of the heap that counts

    def state(self, now: float) -> ConnectionState | None:
        """None: no heartbeat has arrived since tracking began."""
        silent_s = now - self.last_heartbeat_at
        if silent_s >= self.heartbeat.timeout_s:
            return "gone"
        if silent_s >= LOST_AFTER_INTERVALS * self.heartbeat.interval_s:
            return "lost"
        return "back" if self.has_sent_any else None

    def next_due_at(self, now: float) -> float:
        """When there may be something to report that is not due now."""
        lost_at = self.last_heartbeat_at + LOST_AFTER_INTERVALS * self.heartbeat.interval_s
        gone_at = self.last_heartbeat_at + self.heartbeat.timeout_s
        times = [at for at in (lost_at, gone_at) if at > now]
        if self.reported == "back" and self.has_sent_any:
            times.append(self.reported_at + BACK_REPORT_INTERVAL_S)
        return min(times, default=NEVER)


class Liveness:
    """Knows when each RM was heard last, and what has to be reported about it. `now`: seconds, of any clock that does
    not jump.
    """

    def __init__(self) -> None:
        self._tracked: dict[str, _TrackedRm] = {}
        self._due: list[tuple[float, str]] = []
        self._evaluated_at: float | None = None

    def track(self, record: RmRecord, now: float) -> None:
        """Tracks an RM that has this record now. A new registration counts as a heartbeat. An RM that was registered
        before this process began to work has one timeout to send its first heartbeat.
        """
        heartbeat = record.heartbeat if record.state == "registered" else None
        if heartbeat is None:
            self.untrack(record.rm_id)
            return
        previous = self._tracked.get(record.rm_id)
        if previous is not None and previous.record.registration == record.registration:
            previous.record = record
            return
        tracked = _TrackedRm(record, heartbeat, now, "back" if previous is not None else None, now)
        self._tracked[record.rm_id] = tracked
        self._schedule(tracked, tracked.next_due_at(now))

    def untrack(self, rm_id: str) -> None:
        """Forgets an RM that is not registered any more."""
        self._tracked.pop(rm_id, None)

    def record_heartbeat(self, record: RmRecord, now: float) -> None:
        self.track(record, now)
        tracked = self._tracked.get(record.rm_id)
        if tracked is None:
            return
        tracked.last_heartbeat_at, tracked.has_sent_any = now, True
        if tracked.reported != "back" and tracked.due_at > now:
            self._schedule(tracked, now)

    def due_reports(self, now: float) -> Iterator[tuple[RmRecord, ConnectionState, str]]:
        """Yields RM, state and reason of each report that is due. A report is repeated until it is `mark_reported`."""
        if self._evaluated_at is not None and now - self._evaluated_at > MONITOR_STALL_S:
            self._restart(now)
        self._evaluated_at = now
        while self._due and self._due[0][0] <= now:
            due_at, rm_id = heapq.heappop(self._due)
            tracked = self._tracked.get(rm_id)
            if tracked is None or tracked.due_at != due_at:
                continue
            state = tracked.state(now)
            again = state == "back" and now - tracked.reported_at >= BACK_REPORT_INTERVAL_S
            if state is not None and (state != tracked.reported or again):
                self._schedule(tracked, now + LIVENESS_INTERVAL_S)
                reason = "" if state == "back" else f"silent for {now - tracked.last_heartbeat_at:.3g} s"
                yield tracked.record, state, reason
            else:
                self._schedule(tracked, tracked.next_due_at(now))

    def mark_reported(self, record: RmRecord, state: ConnectionState, now: float) -> None:
        tracked = self._tracked.get(record.rm_id)
        if tracked is not None and tracked.record.registration == record.registration:
            tracked.reported, tracked.reported_at = state, now

    def _restart(self, now: float) -> None:
        """This process has stalled and received no heartbeats meanwhile: track all RMs anew."""
        self._due.clear()
        for rm_id, previous in self._tracked.items():
            tracked = self._tracked[rm_id] = _TrackedRm(previous.record, previous.heartbeat, now)
            self._schedule(tracked, tracked.next_due_at(now))

    def _schedule(self, tracked: _TrackedRm, at: float) -> None:
        tracked.due_at = at
        if at == NEVER:
            return
        heapq.heappush(self._due, (at, tracked.record.rm_id))
        if len(self._due) > 2 * len(self._tracked) + LIVENESS_HEAP_SLACK:
            self._drop_obsolete_entries()

    def _drop_obsolete_entries(self) -> None:
        """Drop the entries of RMs that are not tracked any more and of former registrations. Otherwise each would stay
        until it is due, up to some hours."""
        self._due = [(one.due_at, rm_id) for rm_id, one in self._tracked.items() if one.due_at != NEVER]
        heapq.heapify(self._due)
