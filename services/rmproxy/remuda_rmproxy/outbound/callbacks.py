"""Builds the callbacks of a commit from its facts (000, Feedback from Scheduler). Pure.

Consecutive facts of one kind of callback share a message. An RM that handles the messages one by one, and within each
the fields in the order of their declaration, meets the facts in their order. (Applications are independent of one
another, so their order is kept for each application only.) A callback carries the index of its last fact, so publishing
can resume behind it, however the facts are divided into messages the next time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from remuda_proto.guests import is_guest
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callback_mapping import CALLBACK_MAPPINGS, RESPONSES, CallbackMapping
from remuda_rmproxy.records.partitions import PlainNames

QUESTIONS = ("predicate_asked", "predicates_asked", "replacement_asked", "preemption_asked")
# Callbacks before such a fact may be for another registration than those after it.
SESSION_BOUNDARIES = ("rm_registered", "rm_stopped")
APPLICATION_KIND = "application"  # the kind whose order matters only within an application

Question = log_pb2.PredicateAsked | log_pb2.PredicatesAsked | log_pb2.ReplacementAsked | log_pb2.PreemptionAsked
Item = tuple[CallbackMapping, Any]


@dataclass(frozen=True, slots=True)
class Callback:
    """One message to an RM. `last_fact`: the index of its last fact in the commit, from 0."""

    kind: str
    payload: bytes
    last_fact: int


@dataclass(slots=True)
class _CallbackGroup:
    """Facts that share a message, with their indexes."""

    kind: str
    items: list[Item] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    last_field: int = 0  # the field number of the last item
    last_field_by_application: dict[str, int] = field(default_factory=dict)

    def accepts(self, mapping: CallbackMapping, value: Any) -> bool:
        if mapping.kind != self.kind or len(self.items) >= limits.CALLBACK_ITEMS:
            return False
        if self.kind == APPLICATION_KIND:
            return mapping.number >= self.last_field_by_application.get(value.application_id, 0)
        return self.kind in RESPONSES and mapping.number >= self.last_field

    def append(self, mapping: CallbackMapping, value: Any, index: int) -> None:
        self.items.append((mapping, value))
        self.indexes.append(index)
        self.last_field = mapping.number
        if self.kind == APPLICATION_KIND:
            self.last_field_by_application[value.application_id] = mapping.number


def callbacks_of(
    commit: log_pb2.Commit,
    rm_id: str,
    limit: int,
    after_fact: int = -1,
    questions: list[Question] | None = None,
) -> Iterator[Callback]:
    """Yields the callbacks about the facts behind `after_fact`, each of at most `limit` bytes unless a single fact is
    larger. The questions of the commit are added to `questions`.
    """
    names = PlainNames(rm_id)
    for group in _groups(commit, after_fact, [] if questions is None else questions):
        yield from _split_to_size(group.kind, group.items, group.indexes, names, limit)


def _groups(commit: log_pb2.Commit, after_fact: int, questions: list[Question]) -> Iterator[_CallbackGroup]:
    group = _CallbackGroup("")
    index = -1
    for decision in commit.decisions:
        for fact in decision.facts:
            index += 1
            name = fact.WhichOneof("fact") or ""
            mapping = CALLBACK_MAPPINGS.get(name)
            if mapping is None or index <= after_fact:
                if name in SESSION_BOUNDARIES and group.items:
                    yield group
                    group = _CallbackGroup("")
                if name in QUESTIONS:
                    questions.append(getattr(fact, name))
                continue
            value = getattr(fact, name)
            if mapping.applies is not None and not mapping.applies(value, decision):
                continue
            if is_guest(mapping.application(value)):
                continue
            if mapping.prepare is not None:
                value = mapping.prepare(value, decision, commit)
            if not group.accepts(mapping, value):
                if group.items:
                    yield group
                group = _CallbackGroup(mapping.kind)
            group.append(mapping, value, index)
    if group.items:
        yield group


def _split_to_size(
    kind: str, items: list[Item], indexes: list[int], names: PlainNames, limit: int
) -> Iterator[Callback]:
    """One message, or halves of it until each is at most `limit` bytes."""
    payload = _encode(kind, items, names)
    if len(payload) <= limit or len(items) == 1:
        yield Callback(kind, payload, indexes[-1])
        return
    middle = len(items) // 2
    yield from _split_to_size(kind, items[:middle], indexes[:middle], names, limit)
    yield from _split_to_size(kind, items[middle:], indexes[middle:], names, limit)


def _encode(kind: str, items: list[Item], names: PlainNames) -> bytes:
    response_type = RESPONSES.get(kind)
    if response_type is None:
        mapping, value = items[0]
        message = mapping.message()
        mapping.fill(message, value, names)
        return bytes(message.SerializeToString())
    response = response_type()
    for mapping, group in groupby(items, itemgetter(0)):
        add, fill = getattr(response, mapping.response_field).add, mapping.fill
        for _, value in group:
            fill(add(), value, names)
    return bytes(response.SerializeToString())
