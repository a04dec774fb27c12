"""Goals of a replay, `wait.p95[root.prod] < 5m`, and the smallest number of nodes that reaches one. Pure.

A goal is about the waits of a queue with those below it, of a user, or of all; or about the use of a resource:

    wait.p95[root.prod] < 5m      wait.p50 < 30s       wait.p99[user:alice] < 1h
    wait.still[root.prod] < 1     use.vcore > 60%      preemptions < 10
"""

from __future__ import annotations

import operator
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remuda_proto.durations import milliseconds

EXPECTED = (
    "expected wait.MEASURE[QUEUE] < DURATION, such as wait.p95[root.prod] < 5m (measures: mean, p50, p95, p99, most, "
    "still for those that wait in the end), use.RESOURCE > PERCENT% or preemptions < COUNT"
)
_GOAL = re.compile(
    r"(?P<of>[a-z]+)(?:\.(?P<what>[^\[\]\s<>=]+))?(?:\[(?P<name>[^\]]+)\])?\s*(?P<sign><=|>=|<|>)\s*(?P<value>\S+)"
)
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_WAITS = {**{name: f"{name}_ms" for name in ("mean", "p50", "p95", "p99", "most")}, "still": "still_waiting"}


@dataclass(frozen=True, slots=True)
class Goal:
    text: str
    of: str
    what: str
    kind: str
    name: str
    sign: str
    limit: float

    def value(self, run: Mapping[str, Any]) -> float:
        if self.of == "preemptions":
            return float(run["preemptions"]["count"])
        if self.of == "use":
            return float(run["use"].get(self.what, {}).get("share", 0.0))
        row = run["waits"][self.kind].get(self.name, {})
        return float(row.get(self.what, 0))

    def reached(self, run: Mapping[str, Any]) -> bool:
        """A wait that has not ended by the end of the period counts as longer than any limit of waits that do."""
        waits = run["waits"][self.kind].get(self.name, {}) if self.of == "wait" else {}
        if waits and self.what != "still_waiting" and self.sign.startswith("<") and not _settles(waits, self.limit):
            return False
        return _SIGNS[self.sign](self.value(run), self.limit)


def _settles(waits: Mapping[str, Any], limit: float) -> bool:
    """Whether few enough asks still wait in the end, or none has waited longer than the limit."""
    return bool(waits["still_waiting_most_ms"] <= limit or 20 * waits["still_waiting"] <= waits["count"])


def goal_of(text: str) -> Goal:
    """Raises ValueError."""
    found = _GOAL.fullmatch(text.strip())
    wrong = ValueError(f"goal {text[:100]!r}: {EXPECTED}")
    if found is None:
        raise wrong
    of, what, value = found["of"], found["what"] or "", found["value"]
    kind, name = "all", ""
    if found["name"]:
        kind, colon, name = found["name"].partition(":")
        kind, name = (kind, name) if colon and kind in ("user", "queue") else ("queue", found["name"])
    if of == "wait" and what in _WAITS:
        limit = float(value) if what == "still" and value.isdigit() else milliseconds(value)
        what = _WAITS[what]
    elif (
        of == "use" and what and not found["name"] and value.endswith("%") and value[:-1].replace(".", "", 1).isdigit()
    ):
        limit = float(value[:-1]) / 100
    elif of == "preemptions" and not what and not found["name"] and value.isdigit():
        limit = float(value)
    else:
        raise wrong
    if limit is None:
        raise wrong
    return Goal(text.strip(), of, what, kind, name, found["sign"], limit)


@dataclass(frozen=True, slots=True)
class Smallest:
    """`count`: None: not even the most reach it. `contradicts`: counts that contradict it: a smaller one that reaches
    the goal, or a larger one that does not, because waits need not fall with every node."""

    count: int | None
    contradicts: tuple[int, ...] = ()


Reached = Callable[[Sequence[int]], Awaitable[list[bool]]]


async def smallest(reached: Reached, most: int) -> Smallest:
    """The smallest number up to `most` with which the goal is reached, by doubling and halving. Then its neighbours are
    tried. `reached`: tries several at once."""
    if (await reached([0]))[0]:
        return Smallest(0)
    low, high = 0, 1
    while not (await reached([high]))[0]:
        if high >= most:
            return Smallest(None)
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if (await reached([middle]))[0]:
            high = middle
        else:
            low = middle
    near = [one for one in (high - 2, high + 1, high + 2) if 0 < one <= most]
    verdicts = await reached(near)
    wrong = tuple(one for one, is_reached in zip(near, verdicts, strict=True) if is_reached != (one > high))
    return Smallest(high, wrong)
