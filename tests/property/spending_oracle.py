"""A plain reading of semantics section 25: what was used of budgets, what may still be used, and who is admitted.

It remembers what each queue with a budget used from when to when, and adds that up anew each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from remuda_core.facts import BudgetPeriodBegan, Fact
from remuda_core.rules.runtime import bound_of
from remuda_core.state import Application, Partition, PendingAsk, Queue, State

HOUR_MS = 3_600_000


class Spell(NamedTuple):
    """So much was used in all of this time."""

    from_ms: int
    until_ms: int
    amounts: dict[str, int]


class Spending:
    """Of one world: what queues with a budget used, since when that counts, and when the period ends."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.spells: dict[tuple[str, str], list[Spell]] = {}
        self.since_ms: dict[tuple[str, str], int] = {}

    def time_passes(self, state: State, now_ms: int) -> None:
        """Nothing has changed since the last call of `follow`."""
        for name, queue in queues_with_budgets(state):
            amounts = {one: amount for one, amount in queue.allocated.items() if amount}
            if amounts and now_ms > self.now_ms:
                self.spells.setdefault((name, queue.path), []).append(Spell(self.now_ms, now_ms, amounts))
        self.now_ms = now_ms

    def follow(self, state: State, facts: list[Fact]) -> None:
        """These facts were applied just now."""
        for fact in facts:
            if isinstance(fact, BudgetPeriodBegan):
                self.since_ms[fact.partition, fact.queue] = fact.from_ms
        known = {key for key, _ in state.budgets.items()}
        for key in [key for key in self.since_ms if key not in known]:
            del self.since_ms[key]
            self.spells.pop(key, None)
        for key, budget in state.budgets.items():
            self.since_ms.setdefault(key, self.now_ms)
            if budget.from_ms > self.since_ms[key]:  # its queue came back in a later period
                assert budget.from_ms <= self.now_ms < budget.until_ms
                self.since_ms[key] = budget.from_ms

    def used(self, key: tuple[str, str], name: str, until_ms: int) -> int:
        since_ms = self.since_ms[key]
        return sum(
            max(0, min(one.until_ms, until_ms) - max(one.from_ms, since_ms)) * one.amounts.get(name, 0)
            for one in self.spells.get(key, ())
        )

    def check(self, state: State) -> None:
        """Each budget knows what was used."""
        for key, budget in state.budgets.items():
            names = {*budget.past, *budget.used, *(name for one in self.spells.get(key, ()) for name in one.amounts)}
            known = {name: budget.used_of(name) for name in names}
            added = {name: self.used(key, name, min(self.now_ms, budget.until_ms)) for name in names}
            assert known == added, f"{budget}: used is {known}, added up {added}"


# Of the world whose commands are handled. `World` sets it: plain readings of other sections have none.
worlds: list[Spending] = [Spending()]


def queues_with_budgets(state: State) -> Iterator[tuple[str, Queue]]:
    for name, partition in state.partitions.items():
        for queue in partition.queues.values():
            if queue.settings.budget is not None:
                yield name, queue


def fits_budgets(partition: Partition, ask: PendingAsk, also_reserved: bool = False) -> bool:
    """Whether used, committed, held and the cost of the ask are within each budget above it."""
    spending = worlds[0]
    wanted = cost(ask)
    for queue in ask.application.queue.path_to_root:
        if queue.settings.budget is None:
            continue
        key = (partition.name, queue.path)
        period_ends_ms = queue.budgets[0].until_ms
        now_ms = min(spending.now_ms, period_ends_ms)
        for name, hours in queue.settings.budget.amounts.items():
            taken = spending.used(key, name, now_ms)
            for ends_ms, amount in running(partition, queue, name):
                taken += amount * max(0, min(ends_ms, period_ends_ms) - now_ms)
            for other in below(queue):
                for one in other.asks.values():
                    own = one.ask.resource.get(name, 0) * max(1, one.ask.execution_timeout_ms)
                    taken += 0 if has_place(ask) else own * held(one)
                    if also_reserved and not one.ask.placeholder:
                        taken += own * (len(one.reservations) - has_place(one))
            if wanted.get(name, 0) and taken + wanted[name] > hours * HOUR_MS:
                return False
    return True


def cost(ask: PendingAsk) -> dict[str, int]:
    """Its amounts times its bound, or a millisecond. The first placeholder of a gang has that of all."""
    if not ask.ask.placeholder:
        return {name: amount * max(1, ask.ask.execution_timeout_ms) for name, amount in ask.ask.resource.items()}
    if ask.application.allocations:
        return {}
    total: dict[str, int] = {}
    for group in ask.application.task_groups.values():
        for name, amount in group.min_resource.items():
            total[name] = total.get(name, 0) + amount * group.coming * max(1, bound(ask.application, ask.ask))
    return total


def what_it_costs(ask: PendingAsk) -> tuple[object, ...]:
    """The difference of asks of one size under budgets: how long they last, and of which gang they are."""
    if not ask.application.queue.budgets:
        return ()
    return bound(ask.application, ask.ask), ask.application.id if ask.ask.placeholder else ""


def bound(application: Application, ask: object) -> int:
    if not ask.placeholder:  # type: ignore[attr-defined]
        return max(0, ask.execution_timeout_ms)  # type: ignore[attr-defined]
    properties = [queue.settings.properties for queue in application.queue.path_to_root]
    timeout_ms, tags = ask.execution_timeout_ms, ask.tags  # type: ignore[attr-defined]
    return bound_of(timeout_ms, tags, application.tags, properties, placeholder=False).bound_ms


def running(partition: Partition, queue: Queue, name: str) -> Iterator[tuple[int, int]]:
    """When what runs in the queue and below, or may soon, ends at the latest; not after 0: not known; and how much it
    takes."""
    here = list(below(queue))
    for allocation in partition.allocations.values():
        if allocation.application in here:
            fact = allocation.fact
            ends_ms = allocation.at_ms + fact.execution_timeout_ms if fact.execution_timeout_ms > 0 else 0
            yield allocation.until_ms if fact.placeholder else ends_ms, fact.resource.get(name, 0)
    for question in partition.questions.values():
        if question.application in here:
            ask = question.application.asks[question.fact.allocation_key].ask
            lasts_ms = bound(question.application, ask)
            ends_ms = question.fact.answer_by_ms + lasts_ms if lasts_ms else 0
            yield question.until_ms if ask.placeholder else ends_ms, question.fact.resource.get(name, 0)


def below(queue: Queue) -> Iterator[Application]:
    yield from queue.applications.values()
    for child in queue.children.values():
        yield from below(child)


def has_place(ask: PendingAsk) -> bool:
    return ask.preemption is not None and ask.preemption.node.reservation is ask


def held(ask: PendingAsk) -> int:
    """How many repeats of the ask have a place that a preemption holds."""
    if ask.preemption is None:
        return 0
    return ask.preemption.members.get(ask, 0) if ask.preemption.members else int(has_place(ask))
