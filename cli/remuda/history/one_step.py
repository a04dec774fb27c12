"""Decides commits of the past with another configuration, each on the state that it really met: where would that
configuration have decided otherwise?

A look at a commit decides its commands in a forked child. Where that differs from the record, they are decided once
more with the configuration in force. Both have an index that is built anew, so their differences follow from the
configuration alone.
A look is one step: the next commit is decided on the real state again, so a difference has no consequences. A replay
plays what would have become of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from remuda_core import commands, facts
from remuda_core.commands import Command
from remuda_core.core import Core, next_tick_ms
from remuda_core.facts import Fact
from remuda_core.index.index import Index
from remuda_core.limits import ALLOCATIONS_PER_PASS
from remuda_core.settings import Configuration
from remuda_core.wire.codec import CommitCodec
from remuda_core.wire.facts import read_fact
from remuda_core.wire.schema import Fact as FactMessage
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_replication.child import Child, end_within

from .findings import Difference, Findings
from .past import LAST, At, Past, Restored, Step

# A look at a commit that takes longer is given up.
LOOK_WITHIN_S: Final = 600
_SCHEDULE = commands.Schedule.__name__
_CLEAN = commands.CleanQueues.__name__
Name = tuple[str, str]  # kind, and about whom
Decided = dict[Name, list[str]]
Row = tuple[str, str, list[str], list[str]]  # kind, name, in force, otherwise


class OneStep(Findings):
    """`looked`: the commits that were decided again. `by_kind`: a difference that stays from one look to the next
    counts once."""

    looked: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        of = "" if self.looked == self.commits else f" of {self.commits:,}"
        return f"{self.looked:,}{of} commits decided again: {kinds or 'no difference'}"


async def compare_with(
    past: Past, begin: Restored, configuration: Configuration, until: At = LAST, every: int = 1
) -> OneStep:
    """Decide every `every`-th commit behind the state `begin` with this configuration. `begin` moves on. Raises what
    `Past` raises, and ChildFailed."""
    found = OneStep()
    stays: set[Name] = set()
    async for step in past.follow(begin, until):
        found.commits += 1
        recorded = step.entry.commit
        if not step.is_whole:
            found.unread += 1
        elif begin.core.state.partitions and found.commits % every == 0:
            differ = await _look(begin.core, step, configuration)
            found.looked += 1
            for kind, name, in_force, other in differ:
                if (kind, name) not in stays:
                    found.note(kind, _difference(step.entry.seq, kind, name, in_force, other))
            stays = {(kind, name) for kind, name, _, _ in differ}
        found.log_seq, found.at_ms = step.entry.seq, recorded.now_ms
    return found


def _difference(log_seq: int, kind: str, name: str, *decided: list[str]) -> Difference:
    """`decided`: what the configuration in force and the other one decide; empty: nothing."""
    sides = " in force, otherwise ".join(", ".join(one) or "nothing" for one in decided)
    return Difference(log_seq, f"commit {log_seq}, {kind}, {name}: {sides}")


async def _look(core: Core, step: Step, configuration: Configuration) -> list[Row]:
    """The rows in which the other configuration decides otherwise than the one in force. If it decides what was
    recorded, there is nothing to compare."""
    otherwise = await _in_child(lambda: _decided(core, step, configuration))
    if otherwise == _recorded(step.entry.commit):
        return []
    in_force = await _in_child(lambda: _decided(core, step, None))
    rows = list[Row]()
    for kind, name in sorted(in_force.keys() | otherwise.keys()):
        one, other = in_force.get((kind, name), []), otherwise.get((kind, name), [])
        if one != other:
            rows.append((_kind(kind, one, other), name, one, other))
    return rows


async def _in_child(work: Callable[[], Decided]) -> Decided:
    child = Child(lambda: iter([msgspec.json.encode([(*name, values) for name, values in work().items()])]))
    try:
        parts = [part async for part in child.output()]
    finally:
        await child.close()
    rows = msgspec.json.decode(b"".join(parts), type=list[tuple[str, str, list[str]]])
    return {(kind, name): values for kind, name, values in rows}


def _recorded(commit: log_pb2.Commit) -> Decided:
    written = (fact for decision in commit.decisions for fact in decision.facts)
    return _by_name(read_fact(FactMessage.FromString(one.SerializeToString())) for one in written)


def _decided(core: Core, step: Step, configuration: Configuration | None) -> Decided:
    """The decisions about the commit's commands, with this configuration or with that in force. It changes the core.
    The leader's own Tick comes whenever it is due: one without a fact is not recorded, and may have facts with another
    configuration."""
    end_within(LOOK_WITHIN_S)
    core.index = Index()
    codec, state, recorded = CommitCodec(), core.state, step.entry.commit
    now_ms, found = recorded.now_ms, list[Fact]()
    if configuration is not None:
        core.handle(commands.Configure(configuration), state.now_ms)

    def changed(command: Command) -> Command:
        if configuration is not None and isinstance(command, commands.Register | commands.Configure):
            return msgspec.structs.replace(command, configuration=configuration)
        return command

    for message in step.inbox:
        try:
            command = inbox_pb2.Command.FromString(message.payload)
        except DecodeError:  # for the leader, too
            continue
        position = (command.request_seq, command.request_part)
        if command.request_seq and position <= (state.request_seq, state.request_part):
            continue  # a duplicate
        if command.request_seq:
            state.request_seq, state.request_part = position
        found += core.handle_all(map(changed, codec.read(command)[1]), now_ms)
    own = {one.command: one for one in recorded.decisions if not one.inbox_seq}
    if (tick_ms := next_tick_ms(state, 0)) is not None and tick_ms <= now_ms:
        found += core.handle(commands.Tick(), now_ms)
    if _CLEAN in own:
        found += core.handle(commands.CleanQueues(), now_ms)
    limit = own[_SCHEDULE].limit if _SCHEDULE in own else 0
    found += core.handle(commands.Schedule(limit or ALLOCATIONS_PER_PASS), now_ms)
    return _by_name(found)


def _by_name(found: Iterable[Fact]) -> Decided:
    decided: Decided = defaultdict(list)
    for fact in found:
        for kind, name, value in _said(fact):
            decided[kind, name].append(value)
    return {name: sorted(values) for name, values in decided.items()}


PLACEMENT = "placement"


def _kind(kind: str, in_force: list[str], other: list[str]) -> str:
    if kind != PLACEMENT:
        return kind
    return "placed elsewhere" if in_force and other else "not placed" if in_force else "placed"


def _said(fact: Fact) -> Iterator[tuple[str, str, str]]:
    """The decisions of a fact: of which kind, about whom, and what. Explanations, promised times, and what follows from
    the configuration itself are no decisions here."""
    match fact:
        case facts.Allocated() | facts.PredicateAsked() | facts.NodeReserved():
            kind = "reservation" if isinstance(fact, facts.NodeReserved) else PLACEMENT
            yield kind, f"{fact.application_id}/{fact.allocation_key}", fact.node_id
        case facts.PlaceholderReplaced(one) | facts.ReplacementStarted(one):
            yield PLACEMENT, f"{one.application_id}/{one.allocation_key}", one.node_id
        case facts.PreemptionStarted() | facts.PreemptionAsked():
            for uuid in fact.uuids:
                yield "preemption", uuid, f"for {fact.application_id}/{fact.allocation_key}"
        case facts.QuotaPreempted():
            for uuid in fact.uuids:
                yield "preemption", uuid, f"for the maximum of {fact.queue}"
        case facts.AskRejected() | facts.AllocationRejected():
            yield "rejection", f"{fact.application_id}/{fact.allocation_key}", fact.reason
        case facts.ApplicationRejected():
            yield "rejection", fact.application_id, fact.reason
        case facts.NodeRejected():
            yield "rejection", fact.node_id, fact.reason
        case facts.ApplicationAccepted():
            yield "queue", fact.application_id, fact.queue
        case facts.ApplicationStateChanged():
            yield "state", fact.application_id, fact.state
        case facts.ActionRefused(action):
            yield "action", f"{action.kind} by {action.operator}", fact.refusal
