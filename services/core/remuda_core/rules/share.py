"""Who has had how much of what is due (semantics section 2): the numbers that fair orders compare.

A share of 1.0 is all that is due. Plain division of exact sums, so equal sums give equal shares wherever they are
computed.
"""

from __future__ import annotations

from collections.abc import Mapping

from .resource import Resource


def dominant_share(used: Resource, due: Mapping[str, int]) -> float:
    """Of a queue: the highest of used / due over what is used; what is used although nothing is due counts 1."""
    highest = 0.0
    for name, amount in used.items():
        whole = due.get(name)
        share = amount / whole if whole else 1.0 if amount else 0.0
        if share > highest:
            highest = share
    return highest


def due_to_queue(guaranteed: Resource, fair_max: Resource, total: Resource) -> dict[str, int]:
    """What a queue's use is measured by, per resource: its guaranteed where that names the resource, else the maximum
    that holds for it (own, or the nearest ancestor's), else all there is in the partition."""
    return {**total, **fair_max, **guaranteed}


def raw_shares(used: Resource, guaranteed: Resource) -> tuple[float, ...]:
    """Of a queue, or of an application in it, under `compatibility: yunikorn-1.4`: used / guaranteed of each resource,
    or what is used itself where nothing is guaranteed; high to low, to be compared position by position."""
    shares = []
    for name, amount in used.items():
        if amount:
            due = guaranteed.get(name)
            shares.append(amount / due if due else float(amount))
    shares.sort(reverse=True)
    return tuple(shares)


def share_list(used: Resource, total: Resource) -> tuple[float, ...]:
    """Of an application: used / total of each resource, high to low, without zeros, to be compared position by
    position."""
    shares = []
    for name, amount in used.items():
        if amount:
            whole = total.get(name)
            shares.append(amount / whole if whole else 1.0)
    shares.sort(reverse=True)
    return tuple(shares)


# Weights are counted in whole numbers, so that they can be kept as things change and never drift.
ONE = 1 << 80


def scales_of(total: Resource) -> dict[str, int]:
    """What one of each resource weighs: the less there is of it, the more."""
    return {name: max(ONE // whole, 1) for name, whole in total.items() if whole > 0}


def weight(pending: Resource, scales: Mapping[str, int]) -> int:
    """One number that grows whenever any of the pending amounts grows: their sum as parts of the partition's total."""
    return sum(amount * scales.get(name, ONE) for name, amount in pending.items())
