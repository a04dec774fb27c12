"""When time has to pass for one RM: at the next timer, and regularly while something waits that is looked at again and
again. An RM for which none of this holds sleeps until a message comes."""

from __future__ import annotations

from .limits import TICK_MS, TIMERS_MS
from .rules.connection import RUNNING
from .state import State


def next_tick_ms(state: State, last_ms: int) -> int | None:
    """When the tick after that at `last_ms` is due; None: not before something has happened."""
    times = [last_ms + TICK_MS] if _waits(state) else []
    timer_ms = state.timers.next_ms()
    if timer_ms is not None:
        times.append(max(timer_ms, last_ms + TIMERS_MS))
    times += [max(at_ms, last_ms + TICK_MS) for at_ms in _rejections_ended_ms(state)]
    return min(times, default=None)


def _waits(state: State) -> bool:
    """Asks that wait are explained, reserve nodes, and preempt, all of it after a time."""
    return state.rm_state == RUNNING and any(partition.root.priorities for partition in state.partitions.values())


def _rejections_ended_ms(state: State) -> list[int]:
    oldest = (next(iter(partition.rejected.values()), None) for partition in state.partitions.values())
    return [rejected.at_ms + state.timing.ended_ms for rejected in oldest if rejected is not None]
