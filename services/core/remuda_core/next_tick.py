"""When the leader of an RM next needs a Tick: at the next timer, and regularly while asks wait. Without either, the
leader sleeps until a message arrives."""

from __future__ import annotations

from .limits import TICK_MS, TIMERS_MS
from .rules.connection import RUNNING
from .state import State


def next_tick_ms(state: State, last_ms: int) -> int | None:
    """When the Tick after the one at `last_ms` is due, in ms; None: no Tick until a command changes the state."""
    times = [last_ms + TICK_MS] if _waits(state) else []
    timer_ms = state.timers.next_ms()
    if timer_ms is not None:
        times.append(max(timer_ms, last_ms + TIMERS_MS))
    times += [max(at_ms, last_ms + TICK_MS) for at_ms in _rejections_ended_ms(state)]
    return min(times, default=None)


def _waits(state: State) -> bool:
    """There are pending asks: after some time they are explained, reserve nodes, and preempt."""
    return state.rm_state == RUNNING and any(partition.root.priorities for partition in state.partitions.values())


def _rejections_ended_ms(state: State) -> list[int]:
    oldest = (next(iter(partition.rejected.values()), None) for partition in state.partitions.values())
    return [rejected.at_ms + state.timing.ended_ms for rejected in oldest if rejected is not None]
