"""How the maxima of queues change by themselves: windows of the calendar open and close, loans end (semantics sections
26 and 27). Pure look-ahead: of each window the occurrence that is open or comes next."""

from __future__ import annotations

from typing import NamedTuple

from ..decide.loans import shifted
from ..rules.resource import Resource
from ..rules.windows import opens_ms
from ..settings import QueueSettings, Window
from ..state import Loan, Partition, Queue


class Maximum(NamedTuple):
    """The maximum of a queue from a time on."""

    from_ms: int
    most: Resource


def maxima_ahead(partition: Partition, now_ms: int) -> dict[str, list[Maximum]]:
    """The maxima to come by the path of the queue, the present one first. Queues whose maximum stays as it is are left
    out."""
    paths = {one.path for window in partition.settings.calendar for one in window.queues}
    paths |= {path for key in partition.loans if key.partition == partition.name for path in (key.lender, key.borrower)}
    found = {}
    for path in sorted(paths):
        queue = partition.queues.get(path)
        if queue is None or not queue.managed:
            continue
        maxima = [Maximum(now_ms, queue.settings.max)]
        for at_ms in sorted(_times(partition, path)):
            if at_ms > now_ms and (most := _at(partition, queue, at_ms).max) != maxima[-1].most:
                maxima.append(Maximum(at_ms, most))
        if len(maxima) > 1:
            found[path] = maxima
    return found


def _times(partition: Partition, path: str) -> set[int]:
    """When its settings may change."""
    windows = [span for window, span in _spans(partition) if any(one.path == path for one in window.queues)]
    return {time for span in windows for time in span} | {loan.until_ms for _, loan in _loans(partition, path)}


def _spans(partition: Partition) -> list[tuple[Window, tuple[int, int]]]:
    known = partition.windows
    return [
        (window, (opens_ms(window, known[window.name].from_ms), known[window.name].until_ms))
        for window in partition.settings.calendar
        if window.queues and window.name in known
    ]


def _loans(partition: Partition, path: str) -> list[tuple[int, Loan]]:
    """The loans of the maximum of a queue; with 1 where the queue borrows, and -1 where it lends."""
    return [
        (1 if path == key.borrower else -1, loan)
        for key, loan in partition.loans.items()
        if key.partition == partition.name and path in (key.lender, key.borrower) and not loan.guaranteed
    ]


def _at(partition: Partition, queue: Queue, at_ms: int) -> QueueSettings:
    """The settings of the queue at a time to come: those of the last window that is open then, else those outside of
    all windows, with the loans that go on."""
    loans = _loans(partition, queue.path)
    settings = next((one.config for one in partition.settings.outside if one.path == queue.path), None)
    if settings is None:  # no window changes them
        settings = queue.settings
        for times, loan in loans:
            settings = shifted(settings, loan, -times)
    for window, (from_ms, until_ms) in _spans(partition):
        if from_ms <= at_ms < until_ms:
            settings = next((one.config for one in window.queues if one.path == queue.path), settings)
    for times, loan in loans:
        if at_ms < loan.until_ms:
            settings = shifted(settings, loan, times)
    return settings
