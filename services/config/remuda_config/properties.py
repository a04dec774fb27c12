"""The properties of a queue: which values are allowed, and what the queues below inherit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

_CHOICES = {
    "application.sort.policy": ("fifo", "fair", "stateaware"),
    "application.sort.priority": ("enabled", "disabled"),
    "priority.policy": ("default", "fence"),
    "preemption.policy": ("default", "fence", "disabled"),
}
_OFFSET = "priority.offset"
_DELAY = "preemption.delay"
NAMES = (*_CHOICES, _OFFSET, _DELAY)

A_DURATION = "expected a duration of at least 1ms, such as 500ms, 30s, 1m30s"

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
_DURATION = re.compile(rf"\+?(?:{_PART})+", re.ASCII)
_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_MAX_NS = 2**63 - 1


def check(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, what is wrong with it). A property nobody knows is somebody's own and not judged."""
    for name, value in properties.items():
        if problem := _check(name, value):
            yield name, problem


def _check(name: str, value: str) -> str | None:
    if not name:
        return "a property needs a name"
    if name in _CHOICES and value.lower() not in _CHOICES[name]:
        return f"{value!r} is unknown: expected {', '.join(_CHOICES[name])}"
    if name == _OFFSET and not (_INTEGER.fullmatch(value) and -(2**31) <= int(value) < 2**31):
        return f"{value!r}: expected a whole number from {-(2**31)} to {2**31 - 1}"
    if name == _DELAY and delay_ms(value) is None:
        return f"{value!r}: {A_DURATION}"
    return None


def delay_ms(text: str) -> int | None:
    """Whole milliseconds of a duration such as `1m30s`; None when it is none, or shorter than one."""
    if not _DURATION.fullmatch(text):
        return None
    total_ns = sum(Decimal(number) * _UNIT_NS[unit] for number, unit in re.findall(_PART, text))
    return int(total_ns // 10**6) or None if total_ns <= _MAX_NS else None


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """Values the way the core compares them: choices in lower case, the offset in plain digits."""
    return {name: _canonical(name, value) for name, value in properties.items()}


def _canonical(name: str, value: str) -> str:
    if name in _CHOICES:
        return value.lower()
    return str(int(value)) if name == _OFFSET else value


def inherit(above: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The properties in force: the own ones, else the parent's. A priority fence and an offset count where they stand,
    so a child starts from the defaults again; being exempt from preemption passes on, a preemption fence does not."""
    inherited = dict(above)
    for name, start in (("priority.policy", "default"), (_OFFSET, "0"), ("preemption.policy", "default")):
        if name in inherited and inherited[name] != "disabled":
            inherited[name] = start
    return {**inherited, **own}
