"""Amounts of resources, and how much of them is used."""

from __future__ import annotations

from collections.abc import Mapping

Amounts = Mapping[str, int]


def percent(used: Amounts, whole: Amounts) -> dict[str, int]:
    """The part of the whole of each resource that is used, in per cent, cut to an integer."""
    return {name: int(used[name] / most * 100) for name, most in whole.items() if most > 0 and name in used}


def dominant(used: Amounts, whole: Amounts) -> str:
    """The resource with the highest part in use; "": nothing is used."""
    parts = [(used[name] / most, name) for name, most in whole.items() if most > 0 and used.get(name)]
    return max(parts, key=lambda part: (part[0], part[1]), default=(0.0, ""))[1]


def add(to: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + amount
