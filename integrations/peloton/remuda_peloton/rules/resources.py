"""Vectors of the four kinds of resources, and the arithmetic that Peloton's clients expect: doubles within EPSILON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ..limits import EPSILON

# Amounts in the order of KINDS: cores, devices, MB, MB.
Vector = tuple[float, float, float, float]

CPU: Final = "cpu"
GPU: Final = "gpu"
MEMORY: Final = "memory"
DISK: Final = "disk"
KINDS: Final = (CPU, GPU, MEMORY, DISK)

ZERO: Final[Vector] = (0.0, 0.0, 0.0, 0.0)


def vector(amounts: Mapping[str, float]) -> Vector:
    """A vector from amounts by kind. A missing kind is 0."""
    cpu, gpu, memory, disk = (float(amounts.get(kind, 0)) for kind in KINDS)
    return cpu, gpu, memory, disk


def as_vector(values: Iterable[float]) -> Vector:
    """A vector from amounts in the order of KINDS. Raises ValueError for more or fewer."""
    cpu, gpu, memory, disk = values
    return cpu, gpu, memory, disk


def by_kind(amounts: Vector) -> dict[str, float]:
    return dict(zip(KINDS, amounts, strict=True))


def add(a: Vector, b: Vector) -> Vector:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])


def subtract(a: Vector, b: Vector) -> Vector:
    """a − b, and 0 where the difference is below EPSILON."""
    return (_less(a[0], b[0]), _less(a[1], b[1]), _less(a[2], b[2]), _less(a[3], b[3]))


def minimum(a: Vector, b: Vector) -> Vector:
    return (min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))


def fits(a: Vector, b: Vector) -> bool:
    """Whether a ≤ b in every kind, within EPSILON."""
    return (
        a[0] - b[0] < EPSILON and a[1] - b[1] < EPSILON and a[2] - b[2] < EPSILON and a[3] - b[3] < EPSILON
    )  # fmt: skip


def exceeding(a: Vector, b: Vector) -> tuple[str, ...]:
    """The kinds in which a is above b."""
    return tuple(kind for kind, x, y in zip(KINDS, a, b, strict=True) if x - y >= EPSILON)


def total(vectors: Iterable[Vector]) -> Vector:
    result = ZERO
    for each in vectors:
        result = add(result, each)
    return result


def percentage(a: Vector, percent: float) -> Vector:
    return (a[0] * percent / 100, a[1] * percent / 100, a[2] * percent / 100, a[3] * percent / 100)


def _less(a: float, b: float) -> float:
    difference = a - b
    return difference if difference >= EPSILON else 0.0
