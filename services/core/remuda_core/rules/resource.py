"""Resources: sparse maps from a name to an amount, in base units (semantics: 000, `Resource`).

A name that is missing counts as 0 in a capacity and as unlimited in a maximum.
Amounts are Python's integers and so never wrap; they are cut to int64 where they leave for the wire (`clamp`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

Resource = Mapping[str, int]
Items = tuple[tuple[str, int], ...]
Sums = defaultdict[str, int]  # amounts that change; a name that came to zero stays

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


def clamp(amount: int) -> int:
    """The nearest int64: arithmetic saturates, it never wraps."""
    return INT64_MAX if amount > INT64_MAX else INT64_MIN if amount < INT64_MIN else amount


def sums() -> Sums:
    return defaultdict(int)


def items_of(resource: Resource) -> Items:
    """What identifies a resource: its amounts by name, without zeros."""
    return tuple(sorted((name, amount) for name, amount in resource.items() if amount))


def add(total: dict[str, int], resource: Resource, times: int = 1) -> None:
    """total += times * resource, in place. Names that come to zero go, so that equal sums are equal maps."""
    for name, amount in resource.items():
        new = total.get(name, 0) + amount * times
        if new:
            total[name] = new
        else:
            total.pop(name, None)


def times(resource: Resource, count: int) -> Resource:
    return {name: amount * count for name, amount in resource.items()}


def total_of(resources: Iterable[Resource]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resource in resources:
        add(total, resource)
    return total


def show(resource: Resource) -> str:
    """For people: {memory=10 vcore=1000}."""
    return "{" + " ".join(f"{name}={amount}" for name, amount in sorted(resource.items())) + "}"


def problem_of(resource: Resource, what: str) -> str | None:
    """Why a resource in a request is no good: a negative amount. None if it is good."""
    if "" in resource:
        return f"{what}: a resource has an empty name"
    if resource and min(resource.values()) < 0:
        name = min(name for name, amount in resource.items() if amount < 0)
        return f"{what}: {name}={resource[name]}, expected 0 or more"
    return None
