"""Windows of the calendar open and close (semantics section 26).

A window is planned when a configuration has it, and again when it closes. A tick opens it when it begins, and closes it
when it ends. Where no tick came in between, it is planned again without having been open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from .. import facts
from ..facts import Fact
from ..rules.windows import is_maintenance, next_span, opens_ms, window_named
from ..settings import PartitionSettings, QueueSettings, Window
from ..state import Partition, Queue, State
from .loans import end_loans_beyond, with_loans
from .node import follow_windows
from .quota import settle_quotas


def window_due(state: State, partition: Partition, name: str, now_ms: int) -> Iterator[Fact]:
    """Open or close the window whose time has come."""
    window, known = window_named(partition.settings, name), partition.windows[name]
    if not known.open and now_ms < known.until_ms:
        yield from _open(partition, window, now_ms)
        return
    if known.open:
        yield from close(partition, window, now_ms)
    yield from _plan(partition, window, now_ms)


def plan_windows(partition: Partition, now_ms: int) -> Iterator[Fact]:
    """Plan the windows that are new in the calendar."""
    for window in partition.settings.calendar:
        if window.name not in partition.windows:
            yield from _plan(partition, window, now_ms)


def forget_windows(partition: Partition, settings: PartitionSettings, now_ms: int) -> Iterator[Fact]:
    """Close windows that the new settings do not have in the same way."""
    stay = {window.name: window for window in settings.calendar}
    for window in partition.settings.calendar:
        known = partition.windows.get(window.name)
        if known is None or stay.get(window.name) == window:
            continue
        if known.open:
            yield from close(partition, window, now_ms)
        else:
            yield facts.WindowPlanned(partition.name, window.name)


def _plan(partition: Partition, window: Window, now_ms: int) -> Iterator[Fact]:
    span = next_span(window, now_ms)
    if span is None:
        if window.name in partition.windows:
            yield facts.WindowPlanned(partition.name, window.name)
        return
    yield facts.WindowPlanned(partition.name, window.name, *span)
    if opens_ms(window, span.from_ms) <= now_ms:
        yield from _open(partition, window, now_ms)


def _open(partition: Partition, window: Window, now_ms: int) -> Iterator[Fact]:
    known = partition.windows[window.name]
    yield facts.WindowOpened(partition.name, window.name, known.from_ms, known.until_ms)
    yield from _effects(partition, window, now_ms)


def close(partition: Partition, window: Window, now_ms: int) -> Iterator[Fact]:
    yield facts.WindowClosed(partition.name, window.name)
    yield from _effects(partition, window, now_ms)


def _effects(partition: Partition, window: Window, now_ms: int) -> Iterator[Fact]:
    """Give nodes and queues what the windows that are open want of them."""
    if is_maintenance(window):
        for node in list(partition.nodes.values()):
            if window.name in node.windows:
                yield from follow_windows(partition, node)
    changed = []
    for one in window.queues:
        queue = partition.queues.get(one.path)
        if queue is None or not queue.managed:
            continue
        in_window = in_force(partition, one.path)
        if partition.loans:
            yield from end_loans_beyond(partition, one.path, in_window, now_ms)
        settings = with_loans(partition, one.path, in_window)
        if names := differences(queue, queue.leaf, settings):
            yield facts.QueueChanged(partition.name, one.path, queue.leaf, True, settings, names)
            changed.append(queue)
    if changed:
        yield from settle_quotas(partition, changed, now_ms)


def in_force(partition: Partition, path: str) -> QueueSettings:
    """The settings of a queue that windows change: those of the last window of the calendar that is open, else those
    outside of all windows."""
    for window in reversed(partition.settings.calendar):
        known = partition.windows.get(window.name)
        if known is not None and known.open:
            for one in window.queues:
                if one.path == path:
                    return one.config
    return next(one.config for one in partition.settings.outside if one.path == path)


def differences(queue: Queue, leaf: bool, settings: QueueSettings) -> tuple[str, ...]:
    """The names of the changed settings, for QueueChanged; empty if nothing changes."""
    was = queue.settings
    if was == settings and queue.leaf == leaf and queue.managed:
        return ()
    plain: dict[str, Any] = {"max": {}, "guaranteed": {}}
    found = [
        name
        for name, differs in (
            ("type", queue.leaf != leaf),
            ("max", was.max != settings.max),
            ("guaranteed", was.guaranteed != settings.guaranteed),
            ("config", not queue.managed or replace(was, **plain) != replace(settings, **plain)),
        )
        if differs
    ]
    return tuple(found)
