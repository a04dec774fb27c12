"""Everything that happened to an ask, an allocation, an application or a node, with its causes: commits in, lines out.

Pure. Holds nothing but what is asked for, however long the log is: a decision that does not contain the name, as bytes,
is passed over as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from remuda_events.words import OF_THE_RM, WORDS, Mention, mentions
from remuda_proto.remuda.v1 import log_pb2

# What the core does by itself.
OWN: Final = frozenset({"Schedule", "Tick", "CleanQueues"})


@dataclass(frozen=True, slots=True)
class Line:
    """One fact. `log_seq`: where its commit is; the rest is what its decision says of the cause."""

    at_ms: int
    log_seq: int
    kind: str
    text: str
    command: str
    inbox_seq: int
    request_seq: int
    request_part: int
    correlation_id: str
    trace_id: str

    @property
    def cause(self) -> str:
        if not self.inbox_seq:
            return f"the scheduler: {self.command}" if self.command in OWN else self.command
        if not self.request_seq:
            return f"{self.command}, command {self.inbox_seq}"
        part = f".{self.request_part}" if self.request_part else ""
        return f"{self.command}, request {self.request_seq}{part}"


@dataclass(frozen=True, slots=True)
class Sought:
    """What is called `id`: an application, the key of an ask, the UUID of an allocation, a node. With `application`,
    `id` is the key of an ask of that one. `ask` is that of the allocation `id`, and belongs to its story."""

    id: str
    application: str = ""
    ask: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> Sought:
        """`app-1/k1` is an ask of an application, anything without a slash may be anything. Raises ValueError."""
        application, slash, key = text.rpartition("/")
        if not key or (slash and not application):
            raise ValueError(f"{text!r}: expected a name, or APPLICATION/KEY")
        return cls(key, application)

    def __str__(self) -> str:
        return f"{self.application}/{self.id}" if self.application else self.id

    def is_meant(self, named: Mention) -> bool:
        if self.application:
            return (named.application, named.key) == (self.application, self.id)
        if self.ask is not None:
            return named.uuid == self.id or (not named.uuid and (named.application, named.key) == self.ask)
        return self.id in (named.application, named.key, named.uuid, named.node)


class Story:
    """Of one thing, told commit by commit. `whole`: should it turn out to be an allocation, with its ask, whose story
    began earlier: then tell that one instead, from the beginning."""

    def __init__(self, sought: Sought) -> None:
        self.whole: Sought | None = None
        self._sought = sought
        self._needles = [sought.id.encode()] if sought.ask is None else [sought.id.encode(), sought.ask[1].encode()]
        self._begun = False

    def tell(self, log_seq: int, commit: log_pb2.Commit) -> Iterator[Line]:
        """What happened to the whole RM is told from the first line on."""
        for decision in commit.decisions:
            for kind, fact in self._of(decision):
                self._begun = True
                yield line(log_seq, commit, decision, kind, fact)

    def _of(self, decision: log_pb2.Decision) -> Iterator[tuple[str, Any]]:
        payload = decision.SerializeToString()
        named = any(needle in payload for needle in self._needles)
        if not named and (decision.command in OWN or not self._begun):
            return
        for message in decision.facts:
            kind = message.WhichOneof("fact")
            if kind is None or kind not in WORDS:
                continue  # of no such thing, or of a newer core
            fact = getattr(message, kind)
            if (self._begun and kind in OF_THE_RM) or (named and self._concerns(kind, fact)):
                yield kind, fact

    def _concerns(self, kind: str, fact: Any) -> bool:
        meant = [one for one in mentions(kind, fact) if self._sought.is_meant(one)]
        if meant and not self._begun and meant[0].uuid == self._sought.id and meant[0].key:
            self.whole = replace(self._sought, ask=(meant[0].application, meant[0].key))
        return bool(meant)


def line(log_seq: int, commit: log_pb2.Commit, decision: log_pb2.Decision, kind: str, fact: Any) -> Line:
    return Line(
        commit.now_ms, log_seq, type(fact).__name__, WORDS[kind](fact), decision.command, decision.inbox_seq,
        decision.request_seq, decision.request_part, decision.correlation_id, trace_id(decision.traceparent),
    )  # fmt: skip


def trace_id(traceparent: str) -> str:
    """The second of its four parts; empty when there is none."""
    return traceparent.split("-")[1] if traceparent.count("-") == 3 else ""
