"""Short figures in the unit of their resource."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime


def amount(resource: str, value: int) -> str:
    """Writes a quantity of a resource: vcore in cores, memory in bytes with a binary suffix, any other as it is."""
    if resource == "vcore":
        return number(value / 1000)
    if resource == "memory":
        return size(value)
    return number(value)


def amounts(resource: Mapping[str, int], empty: str = "-") -> str:
    """Writes quantities as `vcore 4, memory 16G`, in that order, then the others by name."""
    return ", ".join(f"{name} {amount(name, resource[name])}" for name in ordered(resource)) or empty


def shares(used: Mapping[str, int], total: Mapping[str, int]) -> list[str]:
    """Returns for each resource of `total` a text such as `gpu 48 of 64`: the fullest first, what is used of nothing
    last.
    """
    names = sorted(ordered(total), key=lambda name: -(used.get(name, 0) / total[name] if total[name] else 0.0))
    return [f"{name} {amount(name, used.get(name, 0))} of {amount(name, total[name])}" for name in names]


def ordered(names: Iterable[str]) -> list[str]:
    first = ("vcore", "memory", "gpu")
    return sorted(names, key=lambda name: (first.index(name) if name in first else len(first), name))


def number(value: float) -> str:
    """Writes a number in at most five characters or so: 0.25, 4, 12.5, 1,500, 25k, 1.2M, 9.22E."""
    if abs(value) < 9_999.5:
        return f"{int(value):,}" if value == int(value) else _three(value)
    return _with_suffix(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def size(value: float) -> str:
    """Writes bytes: 512Mi, 16Gi, 1.5Ti, 8Ei."""
    return _with_suffix(value, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))


def _with_suffix(value: float, step: int, suffixes: Sequence[str]) -> str:
    for suffix in suffixes[:-1]:
        if abs(value) < step - 0.5:
            return f"{_three(value)}{suffix}"
        value /= step
    return f"{_three(value)}{suffixes[-1]}"


def _three(value: float) -> str:
    """Three significant digits, without exponent."""
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    if value == 0 or abs(value) < 0.001:
        return f"{value:.3f}" if value else "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = math.copysign(math.floor(abs(value) * 10**digits + 0.5) / 10**digits, value)  # 1.125: 1.13, as the page
    return f"{rounded:.3g}"


def duration(ms: float) -> str:
    """Writes a latency: 0.8 ms, 12 ms, 1.5 s."""
    if ms >= 999.5:
        return f"{_three(ms / 1000)} s"
    return f"{ms:.2g} ms" if ms < 9.95 else f"{ms:.0f} ms"


def wait(ms: float) -> str:
    """Writes a wait: 0 s, 12 s, 5.0 min, 3.2 h."""
    for unit, length in (("h", 3_600_000), ("min", 60_000)):
        if ms >= length:
            return f"{ms / length:.1f} {unit}"
    return f"{ms / 1_000:.3g} s"


def time_of(at_ms: int) -> str:
    """Writes a time of day, in the time zone of this machine. `at_ms`: since 1970; 0: not known."""
    return datetime.fromtimestamp(at_ms / 1_000).astimezone().strftime("%Y-%m-%d %H:%M:%S") if at_ms else "-"


def at(at_ms: int) -> str:
    """Writes a time of a log."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
