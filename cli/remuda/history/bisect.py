"""Finds the first commit after which a condition holds, and its cause: `remuda bisect`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from remuda_core.core import Core
from remuda_core.shell.machine import CoreMachine
from remuda_core.wire import schema
from remuda_core.wire.facts import read_fact
from remuda_events.stories.sentences import SENTENCES
from remuda_events.stories.story import StoryLine, line
from remuda_proto.remuda.v1 import log_pb2

from .condition import Condition
from .past import LAST, At, Past

# Lines of the commit that are shown, with the one that made the condition hold in their middle.
LINES_AROUND = 5


class Found(msgspec.Struct, frozen=True):
    """`holds_at_begin`: the condition held before the first commit; nothing is said then of what made it hold.
    `log_seq`: 0: it never held. `cause`: what was decided, as a sentence with its command. `around`: other facts of the
    commit. `looked_at`: commits."""

    holds_at_begin: bool
    since_seq: int
    until_seq: int
    looked_at: int
    log_seq: int = 0
    at_ms: int = 0
    command: str = ""
    correlation_id: str = ""
    cause: str = ""
    around: list[str] = []


async def bisect(past: Past, condition: Condition, since: At | None, until: At = LAST) -> Found:
    """Looks at every commit, because a condition may hold, end and hold again: halving would find any of these times.
    `since`: None: the oldest state of the last part of the archive without a gap. Raises what `Past` raises."""
    begin = await past.beginning(since)
    core, first = begin.core, begin.position.seq
    machine, seq, count = CoreMachine(core), first, 0
    if condition.holds(core.state):
        return Found(True, first, first, 0)
    async for step in past.steps(begin, until, CoreMachine.commit_class):
        before = seq
        machine.apply(step.entry.commit)
        seq, count = step.entry.seq, count + 1
        if condition.holds(core.state):
            break
    else:
        return Found(False, first, seq, count)
    found = Found(False, first, seq, count, seq, core.state.now_ms)
    return await _with_cause(past, condition, found, before)


async def _with_cause(past: Past, condition: Condition, found: Found, before: int) -> Found:
    """Apply the facts of the commit one by one to the state before it."""
    begin = await past.beginning(At(seq=before) if before else None)
    async for step in past.steps(begin, At(seq=found.log_seq)):
        commit = step.entry.commit
        decisive = next(_decisive(begin.core, condition, commit), None)
        lines = list(_lines(found.log_seq, commit))
        if decisive is None:  # it holds with the time of the commit
            return msgspec.structs.replace(found, around=[one.text for _, one in lines[:LINES_AROUND]])
        number, decision, text = decisive
        near = [one.text for at, one in lines if at != number and abs(at - number) <= LINES_AROUND]
        return msgspec.structs.replace(
            found, command=decision.command, correlation_id=decision.correlation_id, cause=text, around=near
        )
    return found


def _decisive(core: Core, condition: Condition, commit: log_pb2.Commit) -> Iterator[tuple[int, log_pb2.Decision, str]]:
    """The number of the fact after which the condition holds, its decision, and a sentence."""
    number = 0
    for decision in commit.decisions:
        for message in decision.facts:
            core.replay([read_fact(schema.Fact.FromString(message.SerializeToString()))], commit.now_ms)
            if condition.holds(core.state):
                kind = message.WhichOneof("fact") or ""
                said = SENTENCES.get(kind)
                text = said(getattr(message, kind)) if said is not None else kind.replace("_", " ")
                yield number, decision, text
            number += 1


def _lines(seq: int, commit: log_pb2.Commit) -> Iterator[tuple[int, StoryLine]]:
    number = 0
    for decision in commit.decisions:
        for message in decision.facts:
            kind = message.WhichOneof("fact")
            if kind is not None and kind in SENTENCES:
                yield number, line(seq, commit, decision, kind, getattr(message, kind))
            number += 1
