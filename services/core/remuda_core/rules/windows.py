"""Windows of a calendar: when they come, and which nodes they are about (semantics section 26).

A window comes once, or on days of the week by a clock on the wall. How far that clock is ahead of UTC at which time
stands in the settings, so the same settings and the same time give the same occurrence everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ..settings import PartitionSettings, Window

DAY_MS: Final = 86_400_000
# Stands for every value of an attribute, and for every node ID.
ANY: Final = "*"


class Span(NamedTuple):
    """The times of an occurrence, in ms since 1970."""

    from_ms: int
    until_ms: int


def next_span(window: Window, now_ms: int) -> Span | None:
    """The first occurrence that has not ended. None: it does not come again. O(days skipped)."""
    if not window.days:
        span = Span(window.start_ms, window.start_ms + window.duration_ms)
        return span if now_ms < span.until_ms else None
    # No clock is ahead or behind by a day or more. After a week and the skipped days each day of the week has come.
    first = (max(now_ms, window.since_ms) - window.duration_ms) // DAY_MS - 1
    for day in range(first, first + window.duration_ms // DAY_MS + 7 * (len(window.skip) + 1) + 4):
        if (day + 3) % 7 not in window.days or day in window.skip:  # 1970-01-01 was a Thursday
            continue
        from_ms = _utc(day * DAY_MS + window.time_ms, window)
        if window.until_ms and from_ms >= window.until_ms:
            return None
        if from_ms >= window.since_ms and now_ms < from_ms + window.duration_ms:
            return Span(from_ms, from_ms + window.duration_ms)
    return None


def _utc(wall_ms: int, window: Window) -> int:
    """The first time at which the clock shows this. A time that is left out, as the clock is set forward, is read by
    the clock before that."""
    before_ms = 0
    for place, one in enumerate(window.offsets):
        at_ms = wall_ms - before_ms
        if place and at_ms < one.from_ms:
            return at_ms
        after_ms = wall_ms - one.offset_ms
        if place and after_ms < one.from_ms:  # left out
            return at_ms
        before_ms = one.offset_ms
    return wall_ms - before_ms


def opens_ms(window: Window, from_ms: int) -> int:
    """When the occurrence that begins at `from_ms` is in force: one that keeps nodes from its lead on."""
    return from_ms - window.lead_ms if window.queue else from_ms


def concerns(window: Window, node_id: str, attributes: Mapping[str, str]) -> bool:
    """Whether the window concerns the node. O(log IDs + attributes of the window)."""
    if _has(window.ids, ANY) or _has(window.ids, node_id):
        return True
    return bool(window.nodes) and all(
        name in attributes if value == ANY else attributes.get(name) == value for name, value in window.nodes.items()
    )


def _has(ids: Sequence[str], node_id: str) -> bool:
    place = bisect_left(ids, node_id)
    return place < len(ids) and ids[place] == node_id


def is_of_nodes(window: Window) -> bool:
    """Whether the window is about nodes, and not about settings of queues."""
    return bool(window.nodes or window.ids)


def is_maintenance(window: Window) -> bool:
    """Whether the window drains its nodes."""
    return is_of_nodes(window) and not window.queue


def is_below(path: str, queue: str) -> bool:
    """Whether the path is that of the queue or of one below it."""
    return path == queue or path.startswith(f"{queue}.")


def window_named(settings: PartitionSettings, name: str) -> Window:
    return next(window for window in settings.calendar if window.name == name)
