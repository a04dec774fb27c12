"""Facts of a commit into what the RM is told (000, Feedback from Scheduler). Pure.

Consecutive facts of one kind share a message, and their order is kept: whoever takes the messages one by one, and in
each the fields in the order of their declaration, meets everything in the order of the facts. (Applications do not
depend on one another, so theirs is kept per application.) A message carries the index of the last fact it tells:
telling goes on exactly where it stopped, however the messages are cut the next time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.partitions import PlainNames
from remuda_rmproxy.tellings import RESPONSES, TELLINGS, Telling

QUESTIONS = ("predicate_asked", "replacement_asked", "preemption_asked")
# Who is told of what comes before may not be who is told of what comes after.
TURNS = ("rm_registered", "rm_stopped")
INDEPENDENT = "application"  # the kind whose order matters only per application

Question = log_pb2.PredicateAsked | log_pb2.ReplacementAsked | log_pb2.PreemptionAsked
Item = tuple[Telling, Any]


@dataclass(frozen=True, slots=True)
class Callback:
    """One message to an RM. `last_fact`: index in the commit of the last fact it tells, from 0."""

    kind: str
    payload: bytes
    last_fact: int


@dataclass(slots=True)
class _Run:
    """Facts that share a message, with their indexes."""

    kind: str
    items: list[Item] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    highest: int = 0  # number of the field of the last item
    highest_of: dict[str, int] = field(default_factory=dict)  # the same by application

    def takes(self, telling: Telling, told: Any) -> bool:
        if telling.kind != self.kind or len(self.items) >= limits.MAX_ITEMS:
            return False
        if self.kind == INDEPENDENT:
            return telling.number >= self.highest_of.get(told.application_id, 0)
        return self.kind in RESPONSES and telling.number >= self.highest

    def add(self, telling: Telling, told: Any, index: int) -> None:
        self.items.append((telling, told))
        self.indexes.append(index)
        self.highest = telling.number
        if self.kind == INDEPENDENT:
            self.highest_of[told.application_id] = telling.number


def callbacks_of(
    commit: log_pb2.Commit,
    rm_id: str,
    limit: int,
    after_fact: int = -1,
    questions: list[Question] | None = None,
) -> Iterator[Callback]:
    """What the RM is told of a commit beyond the fact `after_fact`, each message at most `limit` bytes. What it is
    asked is put into `questions`."""
    names = PlainNames(rm_id)
    for run in _runs(commit, after_fact, [] if questions is None else questions):
        yield from _messages(run.kind, run.items, run.indexes, names, limit)


def _runs(commit: log_pb2.Commit, after_fact: int, questions: list[Question]) -> Iterator[_Run]:
    run = _Run("")
    index = -1
    for decision in commit.decisions:
        for fact in decision.facts:
            index += 1
            name = fact.WhichOneof("fact") or ""
            telling = TELLINGS.get(name)
            if telling is None or index <= after_fact:
                if name in TURNS and run.items:
                    yield run
                    run = _Run("")
                if name in QUESTIONS:
                    questions.append(getattr(fact, name))
                continue
            told = getattr(fact, name)
            if telling.is_told is not None and not telling.is_told(told, decision):
                continue
            if telling.context is not None:
                told = telling.context(told, decision, commit)
            if not run.takes(telling, told):
                if run.items:
                    yield run
                run = _Run(telling.kind)
            run.add(telling, told, index)
    if run.items:
        yield run


def _messages(kind: str, items: list[Item], indexes: list[int], names: PlainNames, limit: int) -> Iterator[Callback]:
    """One message, or halves of it until each is small enough."""
    payload = _encode(kind, items, names)
    if len(payload) <= limit or len(items) == 1:
        yield Callback(kind, payload, indexes[-1])
        return
    middle = len(items) // 2
    yield from _messages(kind, items[:middle], indexes[:middle], names, limit)
    yield from _messages(kind, items[middle:], indexes[middle:], names, limit)


def _encode(kind: str, items: list[Item], names: PlainNames) -> bytes:
    response_type = RESPONSES.get(kind)
    if response_type is None:
        telling, told = items[0]
        message = telling.message()
        telling.fill(message, told, names)
        return bytes(message.SerializeToString())
    response = response_type()
    for telling, group in groupby(items, itemgetter(0)):
        add, fill = getattr(response, telling.into).add, telling.fill
        for _, told in group:
            fill(add(), told, names)
    return bytes(response.SerializeToString())
