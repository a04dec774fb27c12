"""Conditions about a state, as people write them. Pure.

    queue root.a: allocated.vcore < guaranteed.vcore
    node n1: status == Draining
    queue root.a: pending.memory >= 10Gi and applications > 3
    user alice in root.a: used.vcore > 64
    rm: allocations > 1000

Fields are those of the rows of queries (docs/queries.md); an amount that a row does not name is 0. A queue, node or
user that does not exist fulfils no condition, except `exists == false`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from string import ascii_letters
from typing import Any

import msgspec

from remuda_core.decide.names import plain
from remuda_core.shell import views
from remuda_core.shell.usage import usage_of
from remuda_core.state import Partition, State
from remuda_proto.quantities import SUFFIXES, VCORE

EXPECTED = (
    "expected SUBJECT: FIELD OPERATOR VALUE [and ...], such as 'queue root.a: allocated.vcore < guaranteed.vcore'; "
    "subjects are queue PATH, node ID, application ID, user NAME [in PATH], group NAME [in PATH], partition NAME, rm"
)
_SUBJECT = re.compile(
    r"(?P<kind>queue|node|application|user|group|partition|rm)(?:\s+(?P<name>\S+))?(?:\s+in\s+(?P<queue>\S+))?"
)
_COMPARED = re.compile(r"(?P<left>\S+)\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<right>\S+)")
_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_FACTORS: Mapping[str, int | Decimal] = {**SUFFIXES, "m": Decimal("0.001")}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    left: str
    sign: str
    right: str

    def holds(self, row: Row) -> bool:
        resource = self.left.rpartition(".")[2]
        left, right = _value(row, self.left, resource), _value(row, self.right, resource)
        if isinstance(left, Decimal) != isinstance(right, Decimal):
            return _SIGNS[self.sign](str(left), str(right)) if self.sign in ("==", "!=") else False
        return _SIGNS[self.sign](left, right)


@dataclass(frozen=True, slots=True)
class Condition:
    """`name`: of the queue, node, application, user, group or partition; "": the RM."""

    kind: str
    name: str
    queue: str
    comparisons: tuple[Comparison, ...]
    text: str

    def holds(self, state: State) -> bool:
        """Says whether the condition holds in any partition."""
        rows = [row for row in map(self._row, self._partitions(state)) if row is not None]
        if not rows and self.kind == "rm":
            rows = [_of_rm(state)]
        return any(all(one.holds(row) for one in self.comparisons) for row in rows or [{"exists": False}])

    def _partitions(self, state: State) -> list[Partition]:
        return [] if self.kind == "rm" else list(state.partitions.values())

    def _row(self, partition: Partition) -> Row | None:
        view = self._view(partition, plain(partition.name))
        return None if view is None else {**msgspec.to_builtins(view), "exists": True}

    def _view(self, partition: Partition, name: str) -> object:
        """The row of a query; None: there is no such thing in the partition."""
        match self.kind:
            case "queue":
                queue = partition.queues.get(self.name.lower())
                return None if queue is None else views.queue(name, partition, queue, 0, 0, {})
            case "node":
                node = partition.nodes.get(self.name)
                return None if node is None else views.node(name, node)
            case "application":
                application = partition.applications.get(self.name)
                return None if application is None else views.application(name, application)
            case "partition":
                return views.partition(name, partition) if name == self.name.lower() else None
        wanted = (self.kind, self.name, self.queue.lower() or "root")
        found = [one for one in usage_of(partition) if (one.kind, one.name, one.queue) == wanted]
        return views.usage(name, found[0]) if found else None


def condition_of(text: str) -> Condition:
    """Raises ValueError."""
    subject, colon, rest = text.partition(":")
    found = _SUBJECT.fullmatch(subject.strip())
    if found is None or not colon or (found["kind"] == "rm") != (found["name"] is None):
        raise ValueError(f"condition {text[:100]!r}: {EXPECTED}")
    if found["queue"] and found["kind"] not in ("user", "group"):
        raise ValueError(f"condition {text[:100]!r}: only a user or a group is one in a queue; {EXPECTED}")
    comparisons = []
    for part in re.split(r"\s+and\s+", rest.strip()):
        compared = _COMPARED.fullmatch(part.strip())
        if compared is None:
            raise ValueError(f"condition {text[:100]!r}: {part[:100]!r} compares nothing; {EXPECTED}")
        comparisons.append(Comparison(compared["left"], compared["sign"], compared["right"]))
    return Condition(found["kind"], found["name"] or "", found["queue"] or "", tuple(comparisons), text)


def _of_rm(state: State) -> Row:
    partitions = state.partitions.values()
    return {
        "exists": True,
        "state": state.rm_state,
        "nodes": len([node for one in partitions for node in one.nodes]),
        "applications": sum(not a.terminal for one in partitions for a in one.applications.values()),
        "allocations": sum(len(one.allocations) for one in partitions),
    }


def _value(row: Row, text: str, resource: str) -> Decimal | str:
    """A literal amount, the value of a field, or the text itself. `resource`: that a literal is an amount of."""
    if (amount := amount_of(text, resource)) is not None:
        return amount
    value: Any = row
    for name in text.split("."):
        if not isinstance(value, Mapping):
            return text
        if name not in value:
            return Decimal(0) if value is not row else text
        value = value[name]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return Decimal(value)
    if isinstance(value, list | tuple):
        return Decimal(len(value))
    return "" if value is None else str(value)


def amount_of(text: str, resource: str) -> Decimal | None:
    """A literal amount of the resource, in base units: those of vcore are thousandths. None: it is none."""
    number = text.rstrip(ascii_letters)
    factor = _FACTORS.get(text[len(number) :])
    if factor is None or not _NUMBER.fullmatch(number):
        return None
    try:
        amount = Decimal(number) * factor
    except InvalidOperation:
        return None
    return amount * 1_000 if resource == VCORE else amount
