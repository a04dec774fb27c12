"""A plain reading of semantics section 24: how long nodes stay, and for which asks that is long enough."""

from __future__ import annotations

from remuda_core.state import Node, PendingAsk

# The time of the world whose commands are handled, in ms. `World` sets it: plain readings of other sections have none.
clock = {"now_ms": 0}


def stays(node: Node, ask: PendingAsk) -> bool:
    """Whether the ask, started now, ends before the node leaves. Asks that are bound to a node need not."""
    tags, bound_ms = ask.ask.tags, ask.ask.execution_timeout_ms
    leaves_ms = leaves_at(node)
    if not leaves_ms or tags.get("si/requiredNode") or tags.get("yunikorn.apache.org/requiredNode"):
        return True
    return 0 < bound_ms <= stays_ms(leaves_ms - clock["now_ms"])


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
