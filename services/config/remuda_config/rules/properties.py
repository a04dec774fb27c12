"""The properties of a queue: allowed values, and inheritance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from remuda_proto import durations
from remuda_proto.bounds import shown

_CHOICES = {
    "application.sort.policy": ("fifo", "fair", "stateaware"),
    "application.sort.priority": ("enabled", "disabled"),
    "priority.policy": ("default", "fence"),
    "preemption.policy": ("default", "fence", "disabled"),
}
_OFFSET = "priority.offset"
_DELAY = "preemption.delay"
_QUOTA_DELAY = "quota.preemption.delay"
NAMES = (*_CHOICES, _OFFSET, _DELAY, _QUOTA_DELAY)

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def check(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (name, problem) of each invalid property. Unknown properties are allowed."""
    for name, value in properties.items():
        if problem := _check(name, value):
            yield name, problem


def _check(name: str, value: str) -> str | None:
    if not name:
        return "a property needs a name"
    if name in _CHOICES and value.lower() not in _CHOICES[name]:
        return f"{shown(value)} is unknown: expected {', '.join(_CHOICES[name])}"
    if name == _OFFSET and not (_INTEGER.fullmatch(value) and -(2**31) <= int(value) < 2**31):
        return f"{shown(value)}: expected a whole number from {-(2**31)} to {2**31 - 1}"
    if name == _DELAY and not durations.milliseconds(value):
        return f"{shown(value)}: {durations.EXPECTED}"
    if name == _QUOTA_DELAY and durations.milliseconds(value) is None:
        return f"{shown(value)}: {durations.EXPECTED}, or 0 for never"
    return None


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the values as the core compares them: choices in lower case, the offset in plain digits."""
    return {name: _canonical(name, value) for name, value in properties.items()}


def _canonical(name: str, value: str) -> str:
    if name in _CHOICES:
        return value.lower()
    return str(int(value)) if name == _OFFSET else value


def inherit(above: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Returns the effective properties of a queue: its own, else the parent's. Priority fences, offsets and
    preemption fences are not inherited; `preemption.policy: disabled` is.
    """
    inherited = dict(above)
    for name, start in (("priority.policy", "default"), (_OFFSET, "0"), ("preemption.policy", "default")):
        if name in inherited and inherited[name] != "disabled":
            inherited[name] = start
    return {**inherited, **own}
