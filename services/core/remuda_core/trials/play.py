"""Plays the next scheduling passes on a copy of a core, as its leader would run them if nothing arrived meanwhile.

Both trials are made of this: a preview plays with a proposed configuration and without it, a search for the smallest
change plays after each change that it tries.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .. import facts
from ..commands import AnswerPredicates, Schedule, Tick, Verdict
from ..core import Core, next_tick_ms
from ..facts import Fact
from ..limits import ALLOCATIONS_PER_PASS, TICK_MS
from ..snapshot import restore, save
from ..state import State

# Does work on a copy of the core, and returns what the work returns. It may raise GivenUp.
OnCopy = Callable[[Callable[[Core], bytes]], bytes]


class GivenUp(Exception):
    """There is no time for another trial, or there were too many."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    """An ask that gets a node. `asks_rm`: the RM is asked first, and may refuse. `replaces`: the UUID of the
    placeholder in whose place it comes once the RM has released that. `number`: of the pass, from 1."""

    partition: str
    queue: str
    application: str
    key: str
    node: str
    number: int
    asks_rm: bool = False
    replaces: str = ""


class Victim(msgspec.Struct, frozen=True, gc=False):
    """An allocation that is preempted for the ask `for_key` of `for_application`. `asks_rm`: the RM is asked first."""

    partition: str
    queue: str
    application: str
    key: str
    uuid: str
    node: str
    for_queue: str
    for_application: str
    for_key: str
    number: int
    asks_rm: bool = False


class Played(msgspec.Struct, frozen=True):
    """The placements and victims of a play, in the order of the decisions."""

    placements: list[Placement]
    victims: list[Victim]


def copy_of(core: Core) -> Core:
    """A core with a copy of the state, and without an index."""
    rm_id = core.state.rm_id
    copy = Core(rm_id)
    copy.go_on_from(restore(rm_id, save(core.state)))
    return copy


def play(core: Core, passes: int, now_ms: int) -> Played:
    """Run so many passes on the core, which changes. They are TICK_MS apart, as those of a leader are while asks wait:
    what is due by time (reservations, preemption, time-outs) is due here, too. The RM confirms nothing, and
    answers only questions about classes of asks: it accepts every node."""
    played, ticked_ms = Played([], []), 0
    for number in range(1, passes + 1):
        at_ms = now_ms + (number - 1) * TICK_MS
        due_ms = next_tick_ms(core.state, ticked_ms)
        if due_ms is not None and due_ms <= at_ms:
            ticked_ms = at_ms
            _note(core, core.handle(Tick(), at_ms), number, played)
        _note(core, core.handle(Schedule(ALLOCATIONS_PER_PASS), at_ms), number, played)
        while any(_accept_all_nodes(core, at_ms)):
            _note(core, core.handle(Schedule(ALLOCATIONS_PER_PASS), at_ms), number, played)
    return played


def _accept_all_nodes(core: Core, at_ms: int) -> list[Fact]:
    """Answer the open questions about classes of asks as if the RM accepted every node."""
    answered = list[Fact]()
    for partition in core.state.partitions.values():
        for question, found in list(partition.class_questions.items()):
            verdicts = tuple(map(Verdict, found.asked))
            answered += core.handle(AnswerPredicates(partition.name, question, verdicts), at_ms)
    return answered


def _note(core: Core, decided: list[Fact], number: int, played: Played) -> None:
    state = core.state
    for fact in decided:
        match fact:
            case facts.Allocated() if not fact.question:
                played.placements.append(_placement(state, fact, number, asks_rm=state.batch_predicates))
            case facts.PredicateAsked():
                played.placements.append(_placement(state, fact, number, asks_rm=True))
            case facts.ReplacementStarted():
                placed = fact.allocation
                played.placements.append(_placement(state, placed, number, replaces=fact.placeholder))
            case facts.PreemptionStarted() | facts.PreemptionAsked():
                asks_rm = isinstance(fact, facts.PreemptionAsked)
                played.victims.extend(_victim(state, fact, uuid, number, asks_rm) for uuid in fact.uuids)


def _placement(
    state: State, fact: facts.Allocated | facts.PredicateAsked, number: int, asks_rm: bool = False, replaces: str = ""
) -> Placement:
    queue = state.partitions[fact.partition].applications[fact.application_id].queue.path
    return Placement(
        fact.partition, queue, fact.application_id, fact.allocation_key, fact.node_id, number, asks_rm, replaces
    )


def _victim(
    state: State, fact: facts.PreemptionStarted | facts.PreemptionAsked, uuid: str, number: int, asks_rm: bool
) -> Victim:
    partition = state.partitions[fact.partition]
    victim = partition.allocations[uuid]  # it stays until the RM confirms its release
    return Victim(
        fact.partition, victim.application.queue.path, victim.application.id, victim.fact.allocation_key, uuid,
        victim.node.id, partition.applications[fact.application_id].queue.path, fact.application_id,
        fact.allocation_key, number, asks_rm,
    )  # fmt: skip
