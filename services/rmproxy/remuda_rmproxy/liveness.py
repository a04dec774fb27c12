"""Who is heard and who is silent, of those RMs that have announced how often they are heard. Pure: time is an argument.

What the core has been told is not known after a start, nor after a time in which this process did not listen: another
may have worked. So the first beat of each RM is told as "back", and silence counts from then on; the core takes no
notice of what it knows. "back" is told again now and then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from remuda_rmproxy.limits import BACK_AGAIN_S, NOT_LISTENED_S, SILENT_INTERVALS
from remuda_rmproxy.session import Rm

Verdict = Literal["back", "lost", "gone"]


@dataclass(slots=True)
class _Pulse:
    registration: int
    heard_at: float
    told: Verdict | None = None
    told_at: float = 0.0
    beats: bool = False


class Liveness:
    """`now`: seconds, of any clock that does not jump."""

    def __init__(self) -> None:
        self._pulses: dict[str, _Pulse] = {}
        self._judged_at: float | None = None

    def heard(self, rm: Rm, now: float) -> None:
        pulse = self._pulse(rm, now)
        pulse.heard_at, pulse.beats = now, True

    def judge(self, rms: Iterable[Rm], now: float) -> Iterable[tuple[Rm, Verdict, str]]:
        """What is to be told of whom, and why; until it is `told`."""
        if self._judged_at is not None and now - self._judged_at > NOT_LISTENED_S:
            self._pulses.clear()
        self._judged_at = now
        known = {rm.rm_id: rm for rm in rms if rm.heartbeat is not None}
        for rm_id in self._pulses.keys() - known.keys():
            del self._pulses[rm_id]
        for rm in known.values():
            pulse = self._pulse(rm, now)
            verdict = self._verdict(rm, pulse, now)
            again = verdict == "back" and now - pulse.told_at >= BACK_AGAIN_S
            if verdict is not None and (verdict != pulse.told or again):
                yield rm, verdict, "" if verdict == "back" else f"silent for {now - pulse.heard_at:.3g} s"

    def told(self, rm: Rm, verdict: Verdict, now: float) -> None:
        pulse = self._pulse(rm, now)
        pulse.told, pulse.told_at = verdict, now

    def _pulse(self, rm: Rm, now: float) -> _Pulse:
        """Registering is a sign of life; what was there before this process has time to give one."""
        pulse = self._pulses.get(rm.rm_id)
        if pulse is None or pulse.registration != rm.registration:
            registered_now = pulse is not None
            pulse = self._pulses[rm.rm_id] = _Pulse(rm.registration, now, "back" if registered_now else None, now)
        return pulse

    @staticmethod
    def _verdict(rm: Rm, pulse: _Pulse, now: float) -> Verdict | None:
        heartbeat = rm.heartbeat
        assert heartbeat is not None, "judge leaves others out"
        silent_s = now - pulse.heard_at
        if silent_s >= heartbeat.gone_after_s:
            return "gone"
        if silent_s >= SILENT_INTERVALS * heartbeat.interval_s:
            return "lost"
        return "back" if pulse.beats else None
