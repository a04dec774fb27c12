"""A plain reading of semantics sections 24 and 26: how long nodes stay, and for which asks that is long enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from remuda_core.settings import Window
from remuda_core.state import Node, Partition, PendingAsk

# The time of the world whose commands are handled, in ms, and its partitions. `World` sets them: plain readings of
# other sections have none.
clock = {"now_ms": 0}
world: dict[str, Mapping[str, Partition]] = {"partitions": {}}


def stays(node: Node, ask: PendingAsk) -> bool:
    """Whether the ask, started now, ends before the node leaves. Asks that are bound to a node need not."""
    tags, bound_ms = ask.ask.tags, ask.ask.execution_timeout_ms
    times = [*filter(None, (leaves_at(node),)), *begins_of_windows(node, ask)]
    if not times or tags.get("si/requiredNode") or tags.get("yunikorn.apache.org/requiredNode"):
        return True
    return 0 < bound_ms <= stays_ms(min(times) - clock["now_ms"])


def begins_of_windows(node: Node, ask: PendingAsk) -> Iterator[int]:
    """When windows begin by which the ask has to have ended."""
    partition = world["partitions"][ask.ask.partition]
    for window in partition.settings.calendar:
        known = partition.windows.get(window.name)
        if known is None or not is_of(window, node):
            continue
        if window.queue:
            if known.open and not f"{ask.application.queue.path}.".startswith(f"{window.queue}."):
                yield known.from_ms
        elif not known.open and not (window.unbounded and ask.ask.execution_timeout_ms <= 0):
            yield known.from_ms


def is_of(window: Window, node: Node) -> bool:
    """Whether the node is one of the window: by its ID, or by all of the attributes."""
    if any(one in ("*", node.id) for one in window.ids):
        return True
    differ = [name for name, value in window.nodes.items() if node.attributes.get(name) != value]
    return bool(window.nodes) and all(window.nodes[name] == "*" and name in node.attributes for name in differ)


def leaves_at(node: Node) -> int:
    """When the node leaves; 0: that is not known."""
    text, drained = node.attributes.get("remuda/leavesAt", ""), node.drained
    times = [int(text)] if text and not node.left else []
    times += [drained.from_ms] if drained is not None else []
    return min(filter(None, times), default=0)


def stays_ms(left_ms: int) -> int:
    """Of what is left, the whole minutes behind the time that an answer takes; of 64 and more in steps of 2, of 128 and
    more of 4, and so on."""
    minutes, step = max(0, (left_ms - 5_000) // 60_000), 1
    while minutes // step >= 64:
        step *= 2
    return minutes // step * step * 60_000
