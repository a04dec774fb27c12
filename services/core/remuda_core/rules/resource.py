"""Resources: sparse maps from a name to an amount, in base units (semantics: 000, `Resource`).

A missing name means 0 in a capacity, and unlimited in a maximum. Amounts are Python integers, which never overflow;
`clamp` cuts them to int64 when they are written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from remuda_proto.bounds import (
    RESOURCE_NAME_BYTES,
    RESOURCE_NAMES,
    SHOWN_CHARACTERS,
    problem_of_resource_names,
    shortened,
)

Resource = Mapping[str, int]
Items = tuple[tuple[str, int], ...]
Sums = defaultdict[str, int]  # changing amounts; zeros stay until there are NAMES_KEPT names

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


def clamp(amount: int) -> int:
    """The nearest int64."""
    return INT64_MAX if amount > INT64_MAX else INT64_MIN if amount < INT64_MIN else amount


def sums() -> Sums:
    return defaultdict(int)


def items_of(resource: Resource) -> Items:
    """A key that equal resources share: (name, amount) sorted by name, without zeros."""
    return tuple(sorted((name, amount) for name, amount in resource.items() if amount))


def add(total: dict[str, int], resource: Resource, times: int = 1) -> None:
    """total += times * resource, in place. Removes zeros, so that equal sums are equal maps."""
    for name, amount in resource.items():
        new = total.get(name, 0) + amount * times
        if new:
            total[name] = new
        else:
            total.pop(name, None)


def forget_zeros(amounts: dict[str, int], names: Iterable[str]) -> None:
    """Remove those of the names whose amount is 0."""
    for name in names:
        if not amounts.get(name, 1):
            del amounts[name]


def raise_to(most: dict[str, int], amounts: Resource) -> None:
    """Raises each amount to the larger of both, in place; at most an int64. The result is not a sum that could be
    computed again, so snapshots have to hold it, whatever sums an RM reports."""
    for name, amount in amounts.items():
        if amount > most.get(name, 0):
            most[name] = clamp(amount)


def times(resource: Resource, count: int) -> Resource:
    return {name: amount * count for name, amount in resource.items()}


def total_of(resources: Iterable[Resource]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resource in resources:
        add(total, resource)
    return total


def amounts_above(used: Resource, maximum: Resource) -> dict[str, int]:
    """The part of `used` that is above the maximum. A resource without an amount in the maximum is not limited."""
    return {name: used[name] - most for name, most in maximum.items() if used.get(name, 0) > most}


def show(resource: Resource) -> str:
    """A resource for people: {memory=10 vcore=1000}."""
    return "{" + " ".join(f"{name}={amount}" for name, amount in sorted(resource.items())) + "}"


def problem_of_resource(resource: Resource, what: str) -> str | None:
    """Why a resource in a request is invalid: an invalid name, a negative amount, or too many names. None if it is
    valid. `what`: the field, for the message."""
    if not resource:
        return None
    if "" in resource:
        return f"{what}: a resource has an empty name"
    if (4 * max(map(len, resource)) > RESOURCE_NAME_BYTES or len(resource) > RESOURCE_NAMES) and (
        problem := problem_of_resource_names(what, resource)
    ):
        return problem
    if min(resource.values()) < 0:
        name = min(name for name, amount in resource.items() if amount < 0)
        return f"{what}: {shortened(name, SHOWN_CHARACTERS)}={resource[name]}, expected 0 or more"
    return None
