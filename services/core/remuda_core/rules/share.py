"""Shares, by which fair orders compare queues and applications (semantics section 2).

A share of 1.0 means that everything due is used. Shares are quotients of exact sums, so equal sums give equal shares
everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from .resource import Resource


def dominant_share(used: Resource, due: Mapping[str, int], one: int = 1) -> float:
    """The highest used / due over all used resources of a queue. A resource of which nothing is due counts 1. `one`: in
    which part of a unit `due` is given."""
    highest = 0.0
    for name, amount in used.items():
        whole = due.get(name)
        share = amount / whole if whole else 1.0 / one if amount else 0.0
        if share > highest:
            highest = share
    return highest


def raw_shares(used: Resource, guaranteed: Resource) -> tuple[float, ...]:
    """Shares of a queue, or of an application in it, with `compatibility: yunikorn-1.4`: used / guaranteed of each
    resource, or the used amount if nothing is guaranteed. Sorted from high to low, for lexicographic comparison."""
    shares = []
    for name, amount in used.items():
        if amount:
            due = guaranteed.get(name)
            shares.append(amount / due if due else float(amount))
    shares.sort(reverse=True)
    return tuple(shares)


def share_list(used: Resource, total: Resource) -> tuple[float, ...]:
    """Shares of an application: used / total of each resource, without zeros. Sorted from high to low, for
    lexicographic comparison."""
    shares = []
    for name, amount in used.items():
        if amount:
            whole = total.get(name)
            shares.append(amount / whole if whole else 1.0)
    shares.sort(reverse=True)
    return tuple(shares)


# Weights are integers, so that sums that are maintained incrementally have no rounding errors.
ONE = 1 << 80


def scales_of(total: Resource) -> dict[str, int]:
    """The weight of one unit of each resource: inversely proportional to its total."""
    return {name: max(ONE // whole, 1) for name, whole in total.items() if whole > 0}


def weight(pending: Resource, scales: Mapping[str, int]) -> int:
    """The sum of the pending amounts as fractions of the partition's total, scaled by ONE. Grows with each amount."""
    return sum(amount * scales.get(name, ONE) for name, amount in pending.items())
