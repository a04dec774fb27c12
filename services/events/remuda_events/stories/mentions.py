"""The things that a fact names: applications, asks, allocations, nodes and queues. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si


@dataclass(frozen=True, slots=True)
class Mention:
    """An application, the key of an ask, the UUID of an allocation, a node, a queue; "" where the fact does not name
    one, and for a queue that it concerns only by the way."""

    application: str = ""
    key: str = ""
    uuid: str = ""
    node: str = ""
    queue: str = ""


def mentions(kind: str, fact: Any) -> Iterable[Mention]:
    special = MENTIONS.get(kind)
    if special is not None:
        return special(fact)
    if kind.startswith(("queue_", "quota_")):
        return (Mention(queue=fact.queue),)
    return (Mention(*(getattr(fact, name, "") for name in ("application_id", "allocation_key", "uuid", "node_id"))),)


def of_ask(ask: si.AllocationAsk) -> Mention:
    return Mention(ask.applicationID, ask.allocationKey)


def of_allocation(allocation: si.Allocation) -> Mention:
    return Mention(allocation.applicationID, allocation.allocationKey, allocation.UUID, allocation.nodeID)


def of_replacement(fact: log_pb2.ReplacementStarted | log_pb2.PlaceholderReplaced) -> Iterable[Mention]:
    real = of_allocation(fact.allocation.allocation)
    node = fact.placeholder_node if isinstance(fact, log_pb2.PlaceholderReplaced) else ""
    return real, Mention(real.application, fact.placeholder_key, fact.placeholder, node)


def of_cancelled(fact: log_pb2.ReplacementCancelled) -> Iterable[Mention]:
    ask = Mention(fact.application_id, fact.allocation_key, fact.uuid)
    return ask, Mention(fact.application_id, uuid=fact.placeholder)


def of_draining(fact: log_pb2.QueueDrainOverdue) -> Iterable[Mention]:
    """The queue, and the applications that it names."""
    return [Mention(queue=fact.queue), *map(Mention, fact.application_ids)]


def of_move(fact: log_pb2.ApplicationMoved) -> Iterable[Mention]:
    return (Mention(fact.application_id, queue=queue) for queue in (fact.queue, fact.from_queue))


def of_preemption(fact: log_pb2.PreemptionStarted | log_pb2.PreemptionAsked) -> Iterable[Mention]:
    """The ask and its victims."""
    yield Mention(fact.application_id, fact.allocation_key, node=fact.node_id)
    yield from (Mention(uuid=uuid) for uuid in fact.uuids)


def of_quota(fact: log_pb2.QuotaPreempted) -> Iterable[Mention]:
    """The queue and the victims."""
    yield Mention(queue=fact.queue)
    yield from (Mention(uuid=uuid) for uuid in fact.uuids)


def of_action(fact: log_pb2.ActionTaken | log_pb2.ActionRefused) -> Iterable[Mention]:
    action = fact.action
    return (Mention(action.application_id, action.allocation_key, action.uuid, action.node_id, action.queue.lower()),)


MENTIONS: Final[Mapping[str, Callable[[Any], Iterable[Mention]]]] = {
    "action_taken": of_action,
    "action_refused": of_action,
    "application_moved": of_move,
    "ask_accepted": lambda fact: (of_ask(fact.ask),),
    "ask_changed": lambda fact: (of_ask(fact.ask),),
    "allocated": lambda fact: (of_allocation(fact.allocation),),
    "allocation_recovered": lambda fact: (of_allocation(fact.allocation),),
    "existing_allocation_rejected": lambda fact: (of_allocation(fact.allocation.allocation),),
    "guest_kept": lambda fact: (of_allocation(fact.allocation.allocation),),
    "replacement_started": of_replacement,
    "placeholder_replaced": of_replacement,
    "replacement_cancelled": of_cancelled,
    "preemption_started": of_preemption,
    "preemption_asked": of_preemption,
    "queue_drain_overdue": of_draining,
    "quota_preempted": of_quota,
}
