"""Facts of partitions and queues."""

from __future__ import annotations

from msgspec.structs import replace

from .. import facts, timeouts
from ..limits import DRAIN_REPORTED_MS
from ..rules.limits import limits_others
from ..rules.properties import memory_properties, sort_policy
from ..settings import QueueSettings
from ..state import Partition, Queue, QuotaExcess, State
from .accounts import account_again, account_queue, unaccount_queue
from .booking import mapped_priority, prioritise_queue, track_again
from .budgets import budget_again, budget_queue, unbudget_queue
from .devices import devices_changed, set_prices
from .windows import calendar_changed


def partition_added(state: State, fact: facts.PartitionAdded) -> None:
    root = Queue("root", None, leaf=False, managed=True, settings=fact.config.root)
    root.hold = state.holds.get((fact.partition, "root"))
    partition = state.partitions[fact.partition] = Partition(fact.partition, fact.config, root, {"root": root})
    partition.batch_predicates = state.batch_predicates
    partition.loans = state.loans
    set_prices(partition)
    calendar_changed(partition)
    partition.names.add_names(fact.config.root.max, fact.config.resource_weights)
    budget_queue(state, fact.partition, root)
    account_queue(state, fact.partition, root)


def partition_changed(state: State, fact: facts.PartitionChanged) -> None:
    partition = state.partitions[fact.partition]
    root = partition.root
    before, units, levels = root.settings, partition.settings.devices, partition.settings.topology
    was = partition.settings
    partition.settings, root.settings = fact.config, fact.config.root
    calendar_changed(partition, was)
    if levels != fact.config.topology:  # its path may mean another domain now
        partition.avoided, partition.avoided_ms = None, 0
    if units != fact.config.devices:
        devices_changed(partition)
        partition.work, partition.measured_ms = None, 0
    set_prices(partition)
    if limits_others(before, root.settings):
        track_again(root)
    _remembers_otherwise(state, fact.partition, root, before)
    root.priority = mapped_priority(root)
    partition.names.add_names(fact.config.root.max, fact.config.resource_weights)
    partition.draining = False


def partition_draining(state: State, fact: facts.PartitionDraining) -> None:
    state.partitions[fact.partition].draining = True


def partition_removed(state: State, fact: facts.PartitionRemoved) -> None:
    partition = state.partitions.pop(fact.partition)
    for application in partition.applications.values():  # all have ended
        state.timers.cancel(timeouts.of_state(partition.name, application, state.timing))
    for window in partition.windows:
        state.timers.cancel(timeouts.of_window(partition, window))
    for queue in partition.queues.values():
        unbudget_queue(state, queue)
        unaccount_queue(state, queue)
        state.timers.cancel(timeouts.of_draining(partition.name, queue))
        state.timers.cancel(timeouts.of_quota(partition.name, queue))


def queue_added(state: State, fact: facts.QueueAdded) -> None:
    partition = state.partitions[fact.partition]
    parent = partition.queues[fact.queue.rpartition(".")[0]]
    queue = Queue(fact.queue, parent, fact.leaf, fact.managed, fact.config)
    queue.hold = state.holds.get((fact.partition, fact.queue)) if state.holds else None
    partition.names.add_names(fact.config.max)
    partition.queues[fact.queue] = parent.children[fact.config.name] = queue
    budget_queue(state, fact.partition, queue)
    account_queue(state, fact.partition, queue)


def queue_changed(state: State, fact: facts.QueueChanged) -> None:
    partition = state.partitions[fact.partition]
    queue = partition.queues[fact.queue]
    had = queue.priority if queue.priorities else None
    was = queue.settings
    queue.settings, queue.leaf, queue.managed = fact.config, fact.leaf, fact.managed
    partition.names.add_names(fact.config.max)
    partition.names.count_removed(partition)
    if limits_others(was, queue.settings):
        track_again(queue)
    _remembers_otherwise(state, fact.partition, queue, was)
    queue.priority = mapped_priority(queue)
    prioritise_queue(queue.parent, had, queue.priority if queue.priorities else None)


def _remembers_otherwise(state: State, partition: str, queue: Queue, was: QueueSettings) -> None:
    """Follow other settings of the queue, if they change which accounts and budgets there are."""
    if was.budget != queue.settings.budget:
        if was.budget is None or queue.settings.budget is None:
            budget_again(state, partition, queue)
        else:
            budget_queue(state, partition, queue)
    before, now = was.properties, queue.settings.properties
    if memory_properties(before) != memory_properties(now) or sort_policy(before) != sort_policy(now):
        account_again(state, partition, queue)


def queue_draining(state: State, fact: facts.QueueDraining) -> None:
    queue = state.partitions[fact.partition].queues[fact.queue]
    queue.draining_since_ms = state.now_ms
    if queue.leaf:
        _report_draining(state, fact.partition, queue, state.now_ms + DRAIN_REPORTED_MS)


def queue_drain_overdue(state: State, fact: facts.QueueDrainOverdue) -> None:
    _report_draining(state, fact.partition, state.partitions[fact.partition].queues[fact.queue], fact.next_ms)


def queue_restored(state: State, fact: facts.QueueRestored) -> None:
    queue = state.partitions[fact.partition].queues[fact.queue]
    queue.draining_since_ms = 0
    _report_draining(state, fact.partition, queue, 0)


def _report_draining(state: State, partition: str, queue: Queue, at_ms: int) -> None:
    """At this time it is reported that the queue is still draining; 0: never."""
    state.timers.cancel(timeouts.of_draining(partition, queue))
    queue.drain_report_ms = at_ms
    state.timers.put(timeouts.of_draining(partition, queue))


def queue_removed(state: State, fact: facts.QueueRemoved) -> Queue:
    partition = state.partitions[fact.partition]
    queue = partition.queues.pop(fact.queue)
    state.timers.cancel(timeouts.of_draining(fact.partition, queue))
    state.timers.cancel(timeouts.of_quota(fact.partition, queue))
    unbudget_queue(state, queue)
    unaccount_queue(state, queue)
    partition.names.count_removed(partition)
    for like in queue.refusals:
        partition.set_aside.pop((queue.path, like), None)
    assert queue.parent is not None, "root stays"
    del queue.parent.children[queue.name]
    return queue


def quota_exceeded(state: State, fact: facts.QuotaExceeded) -> None:
    _set_excess(state, fact, QuotaExcess(fact.since_ms, fact.max, fact.delay_ms, fact.preempt_at_ms))


def quota_preempted(state: State, fact: facts.QuotaPreempted) -> None:
    excess = state.partitions[fact.partition].queues[fact.queue].excess
    assert excess is not None, "the queue has exceeded its maximum"
    _set_excess(state, fact, replace(excess, preempt_at_ms=fact.next_ms))


def quota_excess_ended(state: State, fact: facts.QuotaExcessEnded) -> None:
    _set_excess(state, fact, None)


def _set_excess(
    state: State,
    fact: facts.QuotaExceeded | facts.QuotaPreempted | facts.QuotaExcessEnded,
    excess: QuotaExcess | None,
) -> None:
    queue = state.partitions[fact.partition].queues[fact.queue]
    state.timers.cancel(timeouts.of_quota(fact.partition, queue))
    queue.excess = excess
    state.timers.put(timeouts.of_quota(fact.partition, queue))
