"""Questions about one resource manager, answered in JSON out of the leader's state: `remuda.api.core.<rm>.<kind>`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused

from ..core import Core
from ..cycle.explain import Constraint, explain
from ..decide.names import plain
from ..state import Application, Node, Partition, PendingAsk, Queue


class Queries:
    def __init__(self, core: Core) -> None:
        self._state = core.state
        self._kinds: dict[str, Callable[[Mapping[str, Any]], object]] = {
            "queues": self.queues,
            "nodes": self.nodes,
            "applications": self.applications,
            "explain": self.explain,
            "stats": self.stats,
        }

    async def serve(self, bus: Bus) -> None:
        for kind, answer in self._kinds.items():
            subject = subjects.core_query(self._state.rm_id, kind)
            await bus.serve(subject, _handler(answer), f"{kind}-{subjects.key_of(self._state.rm_id).replace('=', '_')}")

    def queues(self, request: Mapping[str, Any]) -> object:
        return {
            "rm": self._state.rm_id,
            "partitions": [_partition(partition) for partition in self._state.partitions.values()],
        }

    def nodes(self, request: Mapping[str, Any]) -> object:
        return {
            "rm": self._state.rm_id,
            "partitions": [
                {"name": plain(partition.name), "nodes": [_node(node) for _, node in sorted(partition.nodes.items())]}
                for partition in self._state.partitions.values()
            ],
        }

    def applications(self, request: Mapping[str, Any]) -> object:
        applications = [a for partition in self._state.partitions.values() for a in partition.applications.values()]
        return {"rm": self._state.rm_id, "applications": [_application(application) for application in applications]}

    def explain(self, request: Mapping[str, Any]) -> object:
        """Of all pending asks, of those of an `application`, or of one (`key`): every constraint that blocks it now."""
        wanted, key = request.get("application"), request.get("key")
        asks = []
        found = False
        same: dict[object, list[Constraint]] = {}  # asks of one lane wait for the same reasons
        for partition in self._state.partitions.values():
            for application in partition.applications.values():
                if wanted and application.id != wanted:
                    continue
                found = True
                asks += [
                    _explained(partition, ask, same)
                    for ask in application.asks.values()
                    if not key or ask.ask.allocation_key == key
                ]
        if wanted and not found:
            raise Refused(f"application {wanted!r} does not exist", 404)
        return {"rm": self._state.rm_id, "asks": asks}

    def stats(self, request: Mapping[str, Any]) -> object:
        state = self._state
        partitions = state.partitions.values()
        return {
            "rm": state.rm_id,
            "inbox_seq": state.inbox_seq,
            "request_seq": state.request_seq,
            "nodes": sum(len(p.nodes) for p in partitions),
            "applications": sum(not a.terminal for p in partitions for a in p.applications.values()),
            "allocations": sum(len(p.allocations) for p in partitions),
            "allocations_ever": state.next_allocation,
        }


def _handler(answer: Callable[[Mapping[str, Any]], object]) -> Callable[[Message], Any]:
    async def handle(message: Message) -> bytes:
        try:
            request = msgspec.json.decode(message.payload or b"{}")
        except msgspec.DecodeError as error:
            raise Refused(f"the request is not JSON: {error}") from error
        if not isinstance(request, dict):
            raise Refused(f"the request is {message.payload!r}, expected a JSON object")
        return msgspec.json.encode(answer(request))

    return handle


def _partition(partition: Partition) -> dict[str, object]:
    return {
        "name": plain(partition.name),
        "status": "Draining" if partition.draining else "Active",
        "total": partition.total,
        "allocated": _held(partition.root.allocated),
        "nodes": len(partition.nodes),
        "queues": _queue(partition.root),
    }


def _queue(queue: Queue) -> dict[str, object]:
    return {
        "path": queue.path,
        "leaf": queue.leaf,
        "managed": queue.managed,
        "status": "Draining" if queue.draining else "Active",
        "draining_since_ms": queue.draining_since_ms,
        "allocated": _held(queue.allocated),
        "pending": _held(queue.pending),
        "guaranteed": queue.settings.guaranteed,
        "max": queue.settings.max,
        "applications": len(queue.applications),
        "priority": queue.priority,
        "children": [_queue(child) for _, child in sorted(queue.children.items())],
    }


def _node(node: Node) -> dict[str, object]:
    return {
        "id": node.id,
        "capacity": node.capacity,
        "occupied": node.occupied,
        "allocated": _held(node.allocated),
        "available": node.available(),
        "status": "Draining" if node.draining else "Schedulable" if node.schedulable else "NotReady",
        "allocations": len(node.allocations),
    }


def _application(application: Application) -> dict[str, object]:
    return {
        "id": application.id, "queue": application.queue.path, "user": application.user, "state": application.state,
        "allocated": _held(application.allocated), "pending": _held(application.pending),
        "asks": sum(ask.pending for ask in application.asks.values()), "allocations": len(application.allocations),
    }  # fmt: skip


def _explained(partition: Partition, ask: PendingAsk, same: dict[object, list[Constraint]]) -> dict[str, object]:
    lane = ask.line.lane if ask.line is not None else ask
    constraints = same.get(lane)
    if constraints is None:
        constraints = same[lane] = explain(partition, ask)
    return {
        "application": ask.application.id,
        "key": ask.ask.allocation_key,
        "pending": ask.pending,
        "since_ms": ask.at_ms,
        "constraints": constraints,
        "reason": constraints[0].reason if constraints else "nothing is in the way: it is not its turn yet",
    }


def _held(resource: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in resource.items() if amount}
