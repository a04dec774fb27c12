"""Facts of partitions and queues."""

from __future__ import annotations

from .. import facts, timeouts
from ..rules.limits import limits_others
from ..state import (
    Partition,
    Queue,
    State,
)
from .pending import mapped_priority, prioritise_queue
from .tracking import track_again


def partition_added(state: State, fact: facts.PartitionAdded) -> None:
    root = Queue("root", None, leaf=False, managed=True, settings=fact.config.root)
    root.hold = state.holds.get((fact.partition, "root"))
    state.partitions[fact.partition] = Partition(fact.partition, fact.config, root, {"root": root})


def partition_changed(state: State, fact: facts.PartitionChanged) -> None:
    partition = state.partitions[fact.partition]
    root = partition.root
    before, partition.settings, root.settings = root.settings, fact.config, fact.config.root
    if limits_others(before, root.settings):
        track_again(root)
    root.priority = mapped_priority(root)
    partition.names.add_names(fact.config.root.max, fact.config.resource_weights)
    partition.draining = False


def partition_draining(state: State, fact: facts.PartitionDraining) -> None:
    state.partitions[fact.partition].draining = True


def partition_removed(state: State, fact: facts.PartitionRemoved) -> None:
    partition = state.partitions.pop(fact.partition)
    for application in partition.applications.values():  # all have ended
        state.timers.cancel(timeouts.of_state(partition.name, application, state.timing))


def queue_added(state: State, fact: facts.QueueAdded) -> None:
    partition = state.partitions[fact.partition]
    parent = partition.queues[fact.queue.rpartition(".")[0]]
    queue = Queue(fact.queue, parent, fact.leaf, fact.managed, fact.config)
    queue.hold = state.holds.get((fact.partition, fact.queue)) if state.holds else None
    partition.names.add_names(fact.config.max)
    partition.queues[fact.queue] = parent.children[fact.config.name] = queue


def queue_changed(state: State, fact: facts.QueueChanged) -> None:
    partition = state.partitions[fact.partition]
    queue = partition.queues[fact.queue]
    had = queue.priority if queue.priorities else None
    was = queue.settings
    queue.settings, queue.leaf, queue.managed = fact.config, fact.leaf, fact.managed
    partition.names.add_names(fact.config.max)
    partition.names.count_removed()
    if limits_others(was, queue.settings):
        track_again(queue)
    queue.priority = mapped_priority(queue)
    prioritise_queue(queue.parent, had, queue.priority if queue.priorities else None)


def queue_draining(state: State, fact: facts.QueueDraining) -> None:
    state.partitions[fact.partition].queues[fact.queue].draining_since_ms = state.now_ms


def queue_restored(state: State, fact: facts.QueueRestored) -> None:
    state.partitions[fact.partition].queues[fact.queue].draining_since_ms = 0


def queue_removed(state: State, fact: facts.QueueRemoved) -> Queue:
    partition = state.partitions[fact.partition]
    queue = partition.queues.pop(fact.queue)
    partition.names.count_removed()
    assert queue.parent is not None, "root stays"
    del queue.parent.children[queue.name]
    return queue
