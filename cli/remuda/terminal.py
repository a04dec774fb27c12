"""The terminal: one console for what people read, whether a live screen makes sense, figures in few characters."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping

from rich.console import Console

SMALLEST_SCREEN = (60, 16)  # columns, rows: below that a live screen is of no use

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def live(plain: bool) -> bool:
    """Whether to draw a live screen rather than print lines."""
    return (
        not plain
        and sys.stdout.isatty()
        and console.width >= SMALLEST_SCREEN[0]
        and console.height >= SMALLEST_SCREEN[1]
    )


def line(source: str, text: str) -> None:
    """One prefixed line, as it is: no markup, no wrapping."""
    print(f"{time.strftime('%H:%M:%S')} {source:<11} {text}", flush=True)


def amount(resource: str, value: int) -> str:
    """A quantity in its resource's unit: vcore and gpu in whole ones, memory in bytes with a binary suffix."""
    if resource in ("vcore", "gpu"):
        return number(value / 1000)
    if resource == "memory":
        return size(value)
    return number(value)


def amounts(resource: Mapping[str, int], empty: str = "-") -> str:
    """`vcore 4, memory 16G`, in that order, then the others by name."""
    return ", ".join(f"{name} {amount(name, resource[name])}" for name in ordered(resource)) or empty


def ordered(names: Iterable[str]) -> list[str]:
    first = ("vcore", "memory", "gpu")
    return sorted(names, key=lambda name: (first.index(name) if name in first else len(first), name))


def number(value: float) -> str:
    """At most five characters or so: 0.25, 4, 12.5, 1,500, 25k, 1.2M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g}k"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Bytes: 512Mi, 16Gi, 1.5Ti."""
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if abs(value) < 1024:
            return f"{value:.3g}{suffix}"
        value /= 1024
    return f"{value:.3g}Pi"


def duration(ms: float) -> str:
    """A latency: 0.8 ms, 12 ms, 1.5 s."""
    if ms >= 1000:
        return f"{ms / 1000:.3g} s"
    return f"{ms:.2g} ms" if ms < 10 else f"{ms:.0f} ms"
