"""The story of an ask, an allocation, an application, a node or a queue: everything that happened to it, with the
causes. Commits in, lines out. Pure.

A story keeps nothing but its target, however long the log is. A decision whose bytes do not contain the target's name
is skipped as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from remuda_events.stories.sentences import FACTS_ABOUT_THE_RM, SENTENCES
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

# Commands that the core gives itself.
SCHEDULER_COMMANDS: Final = frozenset({"Schedule", "Tick", "CleanQueues"})


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One fact. `log_seq`: the sequence of its commit in LOG. The fields from `command` on name the cause."""

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
            return f"the scheduler: {self.command}" if self.command in SCHEDULER_COMMANDS else self.command
        if not self.request_seq:
            return f"{self.command}, command {self.inbox_seq}"
        part = f".{self.request_part}" if self.request_part else ""
        return f"{self.command}, request {self.request_seq}{part}"


@dataclass(frozen=True, slots=True)
class Mention:
    """The names in a fact: of an application, the key of an ask, the UUID of an allocation, of a node and of a queue. A
    field is "" when the fact has no such name, or names a queue that it does not concern."""

    application: str = ""
    key: str = ""
    uuid: str = ""
    node: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class StoryTarget:
    """The things with the name `id`: an application, the key of an ask, the UUID of an allocation, a node, a queue. An
    ask is also named by its application and key, as APPLICATION/KEY. IDs may contain slashes, too, so the place where a
    name is divided does not count. Names of queues have no case. `ask`: the application and key of the ask that the
    allocation `id` is for; it belongs to the story."""

    id: str
    ask: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> StoryTarget:
        """Raises ValueError unless it may be a name."""
        if not text or any("\ud800" <= letter <= "\udfff" for letter in text):  # surrogates: no message has them
            raise ValueError(f"{text!r}: expected a name, or APPLICATION/KEY")
        return cls(text)

    def __str__(self) -> str:
        return self.id

    def matches(self, named: Mention) -> bool:
        if self.ask is not None:
            return named.uuid == self.id or (not named.uuid and (named.application, named.key) == self.ask)
        if self.id in (named.application, named.key, named.uuid, named.node):
            return True
        if bool(named.key) and "/" in self.id and f"{named.application}/{named.key}" == self.id:
            return True
        return bool(named.queue) and named.queue.lower() == self.id.lower()

    def in_messages(self) -> list[bytes]:
        """Texts in lower case: a message that mentions the target contains one of them. A key is written apart from its
        application."""
        if self.ask is not None:
            return [self.id.encode().lower(), self.ask[1].encode().lower()]
        ends = [self.id[at + 1 :] for at, letter in enumerate(self.id) if letter == "/"]
        return [min((one for one in ends if one), key=len, default=self.id).encode().lower()]


class Story:
    """The story of one thing, commit by commit. `restart_as` is set when the target turns out to be an allocation: its
    ask belongs to the story and came earlier, so the story has to be read again from the beginning, with this
    target. `begun`: an earlier commit mentions the target."""

    def __init__(self, target: StoryTarget, begun: bool = False) -> None:
        self.restart_as: StoryTarget | None = None
        self._target = target
        self._names = target.in_messages()
        self._has_begun = begun

    def lines_of(self, log_seq: int, commit: log_pb2.Commit) -> Iterator[StoryLine]:
        """The lines of one commit. From the first line on, facts about the whole RM belong to the story."""
        for decision in commit.decisions:
            for kind, fact in self._facts_of(decision):
                self._has_begun = True
                yield line(log_seq, commit, decision, kind, fact)

    def _facts_of(self, decision: log_pb2.Decision) -> Iterator[tuple[str, Any]]:
        payload = decision.SerializeToString().lower()
        named = any(needle in payload for needle in self._names)
        if not named and (decision.command in SCHEDULER_COMMANDS or not self._has_begun):
            return
        for message in decision.facts:
            kind = message.WhichOneof("fact")
            if kind is None or kind not in SENTENCES:
                continue  # it is in no story, or of a newer core
            fact = getattr(message, kind)
            if (self._has_begun and kind in FACTS_ABOUT_THE_RM) or (named and self._concerns(kind, fact)):
                yield kind, fact

    def _concerns(self, kind: str, fact: Any) -> bool:
        meant = [one for one in mentions(kind, fact) if self._target.matches(one)]
        if meant and not self._has_begun and meant[0].uuid == self._target.id and meant[0].key:
            self.restart_as = replace(self._target, ask=(meant[0].application, meant[0].key))
        return bool(meant)


def line(log_seq: int, commit: log_pb2.Commit, decision: log_pb2.Decision, kind: str, fact: Any) -> StoryLine:
    return StoryLine(
        commit.now_ms, log_seq, type(fact).__name__, printable(SENTENCES[kind](fact)), decision.command,
        decision.inbox_seq, decision.request_seq, decision.request_part, decision.correlation_id,
        trace_id(decision.traceparent),
    )  # fmt: skip


def printable(text: str) -> str:
    """The text on one line. Names and reasons come from RMs and may contain control characters of terminals."""
    return text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)


def trace_id(traceparent: str) -> str:
    """The second of the four parts of a traceparent; "" when there is none."""
    return traceparent.split("-")[1] if traceparent.count("-") == 3 else ""


def mentions(kind: str, fact: Any) -> Iterable[Mention]:
    """The applications, asks, allocations, nodes and queues that a fact of this kind names."""
    special = _MENTIONS.get(kind)
    if special is not None:
        return special(fact)
    if kind.startswith(("queue_", "quota_", "budget_")):
        return (Mention(queue=fact.queue),)
    return (Mention(*(getattr(fact, name, "") for name in ("application_id", "allocation_key", "uuid", "node_id"))),)


def _of_ask(ask: si.AllocationAsk) -> Mention:
    return Mention(ask.applicationID, ask.allocationKey)


def _of_allocation(allocation: si.Allocation) -> Mention:
    return Mention(allocation.applicationID, allocation.allocationKey, allocation.UUID, allocation.nodeID)


def _of_replacement(fact: log_pb2.ReplacementStarted | log_pb2.PlaceholderReplaced) -> Iterable[Mention]:
    real = _of_allocation(fact.allocation.allocation)
    node = fact.placeholder_node if isinstance(fact, log_pb2.PlaceholderReplaced) else ""
    return real, Mention(real.application, fact.placeholder_key, fact.placeholder, node)


def _of_cancelled(fact: log_pb2.ReplacementCancelled) -> Iterable[Mention]:
    ask = Mention(fact.application_id, fact.allocation_key, fact.uuid)
    return ask, Mention(fact.application_id, uuid=fact.placeholder)


def _of_draining(fact: log_pb2.QueueDrainOverdue) -> Iterable[Mention]:
    """The queue, and the applications that it names."""
    return [Mention(queue=fact.queue), *map(Mention, fact.application_ids)]


def _of_move(fact: log_pb2.ApplicationMoved) -> Iterable[Mention]:
    return (Mention(fact.application_id, queue=queue) for queue in (fact.queue, fact.from_queue))


def _of_preemption(fact: log_pb2.PreemptionStarted | log_pb2.PreemptionAsked) -> Iterable[Mention]:
    """The ask and its victims; of a group all asks and all nodes that are kept for it."""
    yield Mention(fact.application_id, fact.allocation_key, node=fact.node_id)
    if isinstance(fact, log_pb2.PreemptionStarted):
        yield from (Mention(fact.application_id, key) for key in fact.members if key != fact.allocation_key)
        yield from (Mention(node=node_id) for node_id in fact.nodes if node_id != fact.node_id)
    yield from (Mention(uuid=uuid) for uuid in fact.uuids)


def _of_quota(fact: log_pb2.QuotaPreempted) -> Iterable[Mention]:
    """The queue and the victims."""
    yield Mention(queue=fact.queue)
    yield from (Mention(uuid=uuid) for uuid in fact.uuids)


def _of_loan(fact: log_pb2.QuotaLent | log_pb2.QuotaLoanEnded) -> Iterable[Mention]:
    """Both queues."""
    return Mention(queue=fact.lender), Mention(queue=fact.borrower)


def _of_action(fact: log_pb2.ActionTaken | log_pb2.ActionRefused) -> Iterable[Mention]:
    action = fact.action
    yield Mention(action.application_id, action.allocation_key, action.uuid, action.node_id, action.queue.lower())
    if action.borrower:
        yield Mention(queue=action.borrower.lower())


_MENTIONS: Final[Mapping[str, Callable[[Any], Iterable[Mention]]]] = {
    "action_taken": _of_action,
    "action_refused": _of_action,
    "application_moved": _of_move,
    "ask_accepted": lambda fact: (_of_ask(fact.ask),),
    "ask_changed": lambda fact: (_of_ask(fact.ask),),
    "allocated": lambda fact: (_of_allocation(fact.allocation),),
    "allocation_recovered": lambda fact: (_of_allocation(fact.allocation),),
    "existing_allocation_rejected": lambda fact: (_of_allocation(fact.allocation.allocation),),
    "guest_kept": lambda fact: (_of_allocation(fact.allocation.allocation),),
    "replacement_started": _of_replacement,
    "placeholder_replaced": _of_replacement,
    "replacement_cancelled": _of_cancelled,
    "preemption_started": _of_preemption,
    "preemption_asked": _of_preemption,
    "queue_drain_overdue": _of_draining,
    "quota_preempted": _of_quota,
    "quota_lent": _of_loan,
    "quota_loan_ended": _of_loan,
}
