"""The properties of a queue: allowed values, and inheritance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from remuda_proto import durations, fair
from remuda_proto.bounds import shown

SORT_POLICY = "application.sort.policy"
FIFO = "fifo"
STATE_AWARE = "stateaware"
FAIR_USERS = "fair-users"
SORT_POLICIES = (FIFO, "fair", FAIR_USERS, STATE_AWARE)
_CHOICES = {
    "application.sort.priority": ("enabled", "disabled"),
    "priority.policy": ("default", "fence"),
    "preemption.policy": ("default", "fence", "disabled"),
}
_OFFSET = "priority.offset"
_DELAY = "preemption.delay"
QUOTA_DELAY = "quota.preemption.delay"
QUOTA_DELAY_1_8 = "preemption.quota.delay"  # its name in the released YuniKorn 1.8
# YuniKorn stops looking at an application for the delay after so many asks that fit nowhere.
BACKOFF = "application.unschedasks.backoff"
BACKOFF_DELAY = "application.unschedasks.backoff.delay"
_RUNTIMES = ("runtime.default", "runtime.most")
NAMES = (
    SORT_POLICY,
    *_CHOICES,
    _OFFSET,
    _DELAY,
    QUOTA_DELAY,
    QUOTA_DELAY_1_8,
    BACKOFF,
    BACKOFF_DELAY,
    *_RUNTIMES,
    *fair.NAMES,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def check(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (name, problem) of each invalid property. Unknown properties are allowed."""
    for name, value in properties.items():
        if problem := _check(name, value):
            yield name, problem
    yield from fair.problems(properties)
    yield from fair.problems_together(properties)


def _check(name: str, value: str) -> str | None:
    if not name:
        return "a property needs a name"
    if name in _CHOICES and value.lower() not in _CHOICES[name]:
        return f"{shown(value)} is unknown: expected {', '.join(_CHOICES[name])}"
    if name == _OFFSET and not (_INTEGER.fullmatch(value) and -(2**31) <= int(value) < 2**31):
        return f"{shown(value)}: expected a whole number from {-(2**31)} to {2**31 - 1}"
    if (name == _DELAY or name in _RUNTIMES) and not durations.milliseconds(value):
        return f"{shown(value)}: {durations.EXPECTED}"
    if name in (QUOTA_DELAY, QUOTA_DELAY_1_8) and durations.milliseconds(value) is None:
        return f"{shown(value)}: {durations.EXPECTED}, or 0 for never"
    if name == BACKOFF and not (_INTEGER.fullmatch(value) and 0 <= int(value) < 2**64):
        return f"{shown(value)}: expected a whole number from 0 to {2**64 - 1}"
    if name == BACKOFF_DELAY and not durations.milliseconds(value):
        return f"{shown(value)}: {durations.EXPECTED}"
    return None


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties as the core compares them: current names, choices in lower case, plain digits."""
    named = {QUOTA_DELAY if name == QUOTA_DELAY_1_8 else name: value for name, value in properties.items()}
    if QUOTA_DELAY in properties:
        named[QUOTA_DELAY] = properties[QUOTA_DELAY]
    return {name: _canonical(name, value) for name, value in named.items()}


def _canonical(name: str, value: str) -> str:
    if name == SORT_POLICY or name in _CHOICES or name == fair.GUARANTEED:
        return value.lower()
    return str(int(value)) if name == _OFFSET else value


def inherit(above: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Returns the effective properties of a queue: its own, else the parent's. Priority fences, offsets, preemption
    fences and `fair.weight` are not inherited; `preemption.policy: disabled` is.
    """
    inherited = {name: value for name, value in above.items() if name != fair.WEIGHT}
    for name, start in (("priority.policy", "default"), (_OFFSET, "0"), ("preemption.policy", "default")):
        if name in inherited and inherited[name] != "disabled":
            inherited[name] = start
    return {**inherited, **own}
