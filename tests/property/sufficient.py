"""What a change of `what_if` promises, checked without its search: carried out on a copy, the ask gets a node in the
next passes, and with less it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from remuda_core import facts
from remuda_core.check import check
from remuda_core.commands import AnswerPredicates, Schedule, Tick, Verdict
from remuda_core.core import Core
from remuda_core.limits import TICK_MS, WHAT_IF_PASSES
from remuda_core.trials.play import copy_of
from remuda_core.trials.steps import APPLICATION, NODE, QUOTAS, Step, carry_out
from remuda_core.trials.what_if import Ask, size_of


def check_sufficient(core: Core, ask: Ask, steps: Sequence[Step], now_ms: int) -> None:
    assert runs(core, ask, steps, now_ms), f"{ask} does not run with {steps}"


def check_smallest(core: Core, ask: Ask, steps: Sequence[Step], now_ms: int) -> None:
    """By brute force: no step can be left out, and none can be smaller."""
    for place, step in enumerate(steps):
        for less in smaller(core, ask, step):
            changed = [*steps[:place], *less, *steps[place + 1 :]]
            assert not runs(core, ask, changed, now_ms), f"{ask} runs with {changed}, too"


def smaller(core: Core, ask: Ask, step: Step) -> Iterator[list[Step]]:
    yield []
    partition, _ = ask.of(core)
    if step.step in QUOTAS:
        yield from ([replace(step, after=after)] for after in range(step.before + 1, step.after))
    elif step.step == NODE:
        for name, amount in step.capacity.items():
            for less in range(amount):
                yield [replace(step, capacity={**step.capacity, name: less})]
    elif step.step == APPLICATION:
        size = size_of(partition, partition.applications[step.where])
        for other in partition.applications.values():
            if other.id != ask.application and not other.terminal and size_of(partition, other) < size:
                yield [replace(step, where=other.id)]


def runs(core: Core, ask: Ask, steps: Sequence[Step], now_ms: int) -> bool:
    copy = copy_of(core)
    partition = copy.state.partitions[ask.partition]
    decided = carry_out(copy, partition, (ask.application, ask.key), steps, now_ms)
    for number in range(WHAT_IF_PASSES):
        at_ms = now_ms + number * TICK_MS
        decided += copy.handle(Tick(), at_ms) if number else []
        decided += copy.handle(Schedule(1_000), at_ms)
        while questions := [
            (p.name, n, found.asked) for p in copy.state.partitions.values() for n, found in p.class_questions.items()
        ]:
            for name, question, asked in questions:
                decided += copy.handle(AnswerPredicates(name, question, tuple(map(Verdict, asked))), at_ms)
            decided += copy.handle(Schedule(1_000), at_ms)
    check(copy.state, copy.index)
    return any(starts(fact, ask) for fact in decided)


def starts(fact: facts.Fact, ask: Ask) -> bool:
    match fact:
        case facts.ReplacementStarted():
            fact = fact.allocation
        case facts.Allocated() | facts.PredicateAsked():
            pass
        case _:
            return False
    return (fact.partition, fact.application_id, fact.allocation_key) == (ask.partition, ask.application, ask.key)
