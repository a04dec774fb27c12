"""A queue tree with usage bars. Pure: renders answers of the core for any width."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from remuda_operations.queries.rows import PartitionTree, QueueTree

from ..terminal.units import amount, number, ordered

BLOCKS = " ▏▎▍▌▋▊▉█"
MOST_NAME = 26
NARROW = 72  # columns: below that, less is shown


def tree(partition: PartitionTree, width: int, rows: int | None = None, title: str = "queue") -> Table:
    """One row per queue: bar, used, guaranteed and maximum in force (dim where it is not the queue's own) of the
    resource that is scarcest there, asks that wait, and applications. With `rows`, the deepest queues are left out
    first, then the last. `title` heads the names."""
    shown = _visible(partition.queues, rows)
    longest = min(max(len(title), MOST_NAME // 2, *(len(_name(queue, depth)) for depth, queue in shown)), MOST_NAME)
    resource = max((len(scarcest(queue)) for _, queue in shown), default=0)
    columns = [(name, size if name else max(size, resource)) for name, size in _columns(width)]
    bar_width = max(10, min(56, width - longest - sum(size + 1 for _, size in columns) - 2))
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=False)
    table.add_column(title, no_wrap=True, overflow="ellipsis", min_width=longest, max_width=longest)
    table.add_column("usage, ▕ guaranteed" if bar_width >= 19 else "usage", no_wrap=True)
    for name, size in columns:
        table.add_column(name, justify="right", no_wrap=True, min_width=size)
    for depth, queue in shown:
        table.add_row(*_row(queue, depth, width, bar_width))
    return table


def _name(queue: QueueTree, depth: int) -> str:
    """Indented, and with the states of which people have to know: those remain when a long name is cut."""
    marks = [mark for mark, is_so in (("held", queue.held), ("draining", queue.status == "Draining")) if is_so]
    mark = f" ({', '.join(marks)})" if marks else ""
    name = "  " * depth + queue.name
    most = max(4, MOST_NAME - len(mark))
    return (name if len(name) <= most or not mark else f"{name[: most - 1]}…") + mark


def _columns(width: int) -> tuple[tuple[str, int], ...]:
    """Name and usual width."""
    if width < NARROW:
        return (("used", 5), ("max", 5), ("waiting", 7))
    return (("", 5), ("used", 5), ("guar.", 5), ("max", 5), ("waiting", 7), ("apps", 4))


def _row(queue: QueueTree, depth: int, width: int, bar_width: int) -> list[Text]:
    resource = scarcest(queue)
    used, top = queue.allocated.get(resource, 0), queue.max_in_force.get(resource, 0)
    guaranteed, is_own = queue.guaranteed.get(resource), queue.max.get(resource) == top
    style = "dim" if queue.status.lower() not in ("", "active") else ""
    cells = [
        Text(_name(queue, depth), style=style or ("bold" if not queue.leaf else "")),
        bar(used, top, guaranteed, bar_width, is_owed(queue)),
        Text(resource, style="dim"),
        Text(amount(resource, used)),
        Text(amount(resource, guaranteed) if guaranteed else "-", style="" if guaranteed else "dim"),
        Text(amount(resource, top), style="" if is_own else "dim"),
        Text(number(queue.waiting), style="yellow" if queue.waiting else "dim"),
        Text(number(applications(queue)), style="" if applications(queue) else "dim"),
    ]
    return [cells[0], cells[1], cells[3], cells[5], cells[6]] if width < NARROW else cells


def bar(used: int, top: int, guaranteed: int | None, width: int, owed: bool = False) -> Text:
    """Filled to used / top, with a mark where guaranteed is. Blue however full it is; red where the queue is owed
    something."""
    share = min(1.0, used / top) if top > 0 else 0.0
    style = "red" if owed else "blue"
    eighths = round(share * width * 8)
    cells = "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")
    if used > 0 and not cells:
        cells = BLOCKS[1]
    text = Text(cells.ljust(width), style=style)
    text.stylize("on grey23")
    if guaranteed and top > 0:
        at = min(width - 1, max(0, round(guaranteed / top * width) - 1))
        if at >= len(cells):
            text = Text.assemble(text[:at], ("▕", "bold cyan on grey23"), text[at + 1 :])
        else:
            text = Text.assemble(text[:at], ("▐", f"cyan on {style}"), text[at + 1 :])
    return text


def scarcest(queue: QueueTree) -> str:
    """The resource that binds first: of what the queue may use of it, the largest part is used or waited for. The web
    page goes by the same rule (`shares.js`)."""
    names = ordered({*queue.max_in_force, *(name for name, amount in queue.pending.items() if amount)}) or ["vcore"]

    def pressure(name: str) -> float:
        wanted, top = queue.allocated.get(name, 0) + queue.pending.get(name, 0), queue.max_in_force.get(name, 0)
        return wanted / top if top else math.inf if wanted else 0.0

    return max(names, key=pressure)


def is_owed(queue: QueueTree) -> bool:
    """Whether the queue uses less than is guaranteed to it, of all that asks in it wait for."""
    short = [queue.allocated.get(name, 0) < due for name, due in queue.guaranteed.items() if queue.pending.get(name)]
    return bool(short) and all(short)


def _visible(root: QueueTree, rows: int | None) -> list[tuple[int, QueueTree]]:
    found = list(_walk(root, 0))
    if rows is None or len(found) <= rows:
        return found
    deepest = max(depth for depth, _ in found)
    while deepest > 1 and len(found) > rows:
        found = [row for row in found if row[0] < deepest]
        deepest -= 1
    return found[:rows]


def _walk(queue: QueueTree, depth: int) -> Iterator[tuple[int, QueueTree]]:
    yield depth, queue
    for child in queue.children:
        yield from _walk(child, depth + 1)


def applications(queue: QueueTree) -> int:
    """The number of applications in the queue and below it."""
    return queue.applications + sum(map(applications, queue.children))


def leaves(queue: QueueTree) -> Iterator[QueueTree]:
    for _, found in _walk(queue, 0):
        if found.leaf:
            yield found
