"""Nodes that leave at a known time (semantics section 24).

Until then an allocation may run there if its bound ends before. How long that is at most falls in steps, so that a node
does not change with every millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from remuda_proto.bounds import shown
from remuda_proto.constants import LEAVES_AT
from remuda_proto.durations import EXPECTED_TIME, instant

from ..limits import ANSWER_WITHIN_MS
from .required_node import required_node
from .windows import is_below

# How long an allocation may run on a node that does not leave, and what an ask without a bound needs.
ALWAYS_MS: Final = 2**62
STEP_MS: Final = 60_000
# So many binary digits of the number of steps count.
DIGITS: Final = 6

# A node may leave for some asks only. These are the names of the asks for which it leaves: all; those with a bound;
# those of other queues than the one whose path follows. No resource has such a name.
ALL: Final = "\ud801lasting"
BOUNDED: Final = f"{ALL} bounded"
OTHERS: Final = f"{ALL}:"


def leaves_at(attributes: Mapping[str, str]) -> int:
    """When a node with these attributes leaves, in ms; ALWAYS_MS: they do not say, or it cannot be
    read."""
    text = attributes.get(LEAVES_AT, "")
    return instant(text) or ALWAYS_MS if text else ALWAYS_MS


def problem_of_leaving(attributes: Mapping[str, str]) -> str | None:
    """Why it cannot be read when a node with these attributes leaves. None if it can."""
    text = attributes.get(LEAVES_AT, "")
    return f"attribute {LEAVES_AT}: {shown(text)}, {EXPECTED_TIME}" if text and not instant(text) else None


def lasting_ms(leaves_ms: int, now_ms: int) -> int:
    """The longest bound of an ask that may start now on a node that leaves then: the whole minutes that are left once
    the RM has answered a question, of whose number the first DIGITS binary digits count. ALWAYS_MS if the node does not
    leave."""
    if leaves_ms >= ALWAYS_MS:
        return ALWAYS_MS
    steps = max(0, _ends_by(leaves_ms) - now_ms) // STEP_MS
    less = max(steps.bit_length() - DIGITS, 0)
    return (steps >> less << less) * STEP_MS


def shorter_from_ms(leaves_ms: int, now_ms: int) -> int:
    """The first time at which `lasting_ms` is shorter than now; ALWAYS_MS if there is none."""
    lasts_ms = lasting_ms(leaves_ms, now_ms)
    return _ends_by(leaves_ms) - lasts_ms + 1 if 0 < lasts_ms < ALWAYS_MS else ALWAYS_MS


def _ends_by(leaves_ms: int) -> int:
    """When allocations have to have ended: the RM may take some time to say whether they may start."""
    return leaves_ms - ANSWER_WITHIN_MS


def needed_ms(tags: Mapping[str, str], bound_ms: int) -> int:
    """The time that a node has to stay for an ask with these tags and this bound (0: none, so always), in ms. An ask
    that is bound to a node may run there as long as the node does."""
    if required_node(tags):
        return 0
    return bound_ms if bound_ms > 0 else ALWAYS_MS


def needed_by(audience: str, path: str, lasts_ms: int) -> int:
    """The time that a node which leaves for `audience` has to stay for an ask of the queue `path` that needs
    `lasts_ms`."""
    if audience == BOUNDED:
        return 0 if lasts_ms >= ALWAYS_MS else lasts_ms
    if audience.startswith(OTHERS) and is_below(path, audience.removeprefix(OTHERS)):
        return 0
    return lasts_ms


def leaves_for(departures: Mapping[str, int], path: str, tags: Mapping[str, str], bound_ms: int) -> int:
    """When a node that leaves for these audiences at these times leaves for an ask of the queue `path`; ALWAYS_MS:
    never."""
    if not departures:
        return ALWAYS_MS
    lasts_ms = needed_ms(tags, bound_ms)
    return min((at_ms for who, at_ms in departures.items() if needed_by(who, path, lasts_ms)), default=ALWAYS_MS)


def ends_before(tags: Mapping[str, str], bound_ms: int, leaves_ms: int, now_ms: int) -> bool:
    """Whether an ask with these tags and this bound, started now, ends before a node leaves."""
    return leaves_ms >= ALWAYS_MS or needed_ms(tags, bound_ms) <= lasting_ms(leaves_ms, now_ms)


def still_ends_before(tags: Mapping[str, str], bound_ms: int, leaves_ms: int, now_ms: int) -> bool:
    """Says to the millisecond whether what `ends_before` said still holds, for what has been decided before."""
    return leaves_ms >= ALWAYS_MS or now_ms + needed_ms(tags, bound_ms) <= leaves_ms
