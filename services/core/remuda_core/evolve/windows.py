"""Facts of the calendar's windows, and what follows from them for nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import facts, timeouts
from ..rules.leaving import ALL, BOUNDED, OTHERS
from ..rules.windows import concerns, is_of_nodes
from ..settings import PartitionSettings, Window
from ..state import NEVER_MS, Node, Occurrence, Partition, State


def window_planned(state: State, fact: facts.WindowPlanned) -> tuple[Node, ...]:
    """Returns the nodes that leave at another time, as each function here does."""
    return _set_occurrence(
        state, fact.partition, fact.window, Occurrence(fact.from_ms, fact.until_ms) if fact.until_ms else None
    )


def window_opened(state: State, fact: facts.WindowOpened) -> tuple[Node, ...]:
    return _set_occurrence(state, fact.partition, fact.window, Occurrence(fact.from_ms, fact.until_ms, open=True))


def window_closed(state: State, fact: facts.WindowClosed) -> tuple[Node, ...]:
    return _set_occurrence(state, fact.partition, fact.window, None)


def _set_occurrence(state: State, name: str, window: str, now: Occurrence | None) -> tuple[Node, ...]:
    partition = state.partitions[name]
    state.timers.cancel(timeouts.of_window(partition, window))
    if now is None:
        partition.windows.pop(window, None)
    else:
        partition.windows[window] = now
    state.timers.put(timeouts.of_window(partition, window))
    its = (node for node in partition.nodes.values() if window in node.windows)
    return tuple(node for node in its if note_departures(partition, node))


def calendar_changed(partition: Partition, before: PartitionSettings | None = None) -> None:
    """Follow another calendar: which nodes are in which windows. `before`: the settings that the partition had."""
    calendar = partition.settings.calendar
    if calendar == (before.calendar if before is not None else ()):
        return
    partition.calendar_audiences = audiences_of(calendar)
    for node in partition.nodes.values():
        note_windows(partition, node)
        note_departures(partition, node)


def audiences_of(calendar: Iterable[Window]) -> tuple[str, ...]:
    """The kinds of asks for which nodes may leave by the calendar, in order. Empty: it is not about nodes."""
    found = {_audience(window) for window in calendar if is_of_nodes(window)}
    return tuple(sorted({ALL, *found})) if found else ()


def _audience(window: Window) -> str:
    if window.queue:
        return f"{OTHERS}{window.queue}"
    return BOUNDED if window.unbounded else ALL


def note_windows(partition: Partition, node: Node) -> None:
    """Follow other attributes of the node, or another calendar."""
    node.windows = tuple(
        window.name for window in partition.settings.calendar if concerns(window, node.id, node.attributes)
    )


def note_departures(partition: Partition, node: Node) -> bool:
    """Follow when the node leaves. Returns whether that is another time than before."""
    now = departures_of(partition, node)
    if now == node.departures:
        return False
    node.departures = now
    if now:
        partition.leaving[node.id] = None
    else:
        partition.leaving.pop(node.id, None)
    return True


def departures_of(partition: Partition, node: Node) -> Mapping[str, int]:
    """When the node leaves next, for which asks: for all by its attribute, by an operator and for maintenance; for
    those of other queues when a window that is open keeps it for one."""
    found = {ALL: node.leaves_ms} if node.leaves_ms < NEVER_MS else {}
    if not node.windows:
        return found
    for window in partition.settings.calendar:
        known = partition.windows.get(window.name) if window.name in node.windows else None
        if known is not None and known.open == bool(window.queue):
            audience = _audience(window)
            found[audience] = min(found.get(audience, NEVER_MS), known.from_ms)
    return found
