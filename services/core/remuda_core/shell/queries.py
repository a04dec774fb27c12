"""Questions about one resource manager, answered in JSON out of the leader's state: `remuda.api.core.<rm>.<kind>`.

Long answers come in pages (`pages`). Times are milliseconds since 1970, partition names the RM's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused, Serving

from ..core import Core
from ..cycle.explanations import Explanations
from ..cycle.position import Positions
from ..decide.names import plain
from ..limits import PAGE_NODE_LOOKS
from ..state import Application, Partition, PendingAsk
from . import views
from .pages import page
from .usage import usage_of

Request = Mapping[str, Any]


class Queries:
    def __init__(self, core: Core) -> None:
        self._state = core.state
        self._kinds: dict[str, Callable[[Request], object]] = {
            "queues": self.queues,
            "nodes": self.nodes,
            "applications": self.applications,
            "rejections": self.rejections,
            "allocations": self.allocations,
            "usage": self.usage,
            "explain": self.explain,
            "stats": self.stats,
        }

    async def serve(self, bus: Bus) -> list[Serving]:
        rm_id = self._state.rm_id
        return [
            await bus.serve(subjects.core_query(rm_id, kind), _handler(answer), f"{kind}-{subjects.token(rm_id)}")
            for kind, answer in self._kinds.items()
        ]

    def _head(self) -> dict[str, object]:
        return {"rm": self._state.rm_id, "state": self._state.rm_state}

    def _partitions(self) -> list[tuple[str, Partition]]:
        """By their plain names, which is the order of all rows."""
        return sorted((plain(partition.name), partition) for partition in self._state.partitions.values())

    def queues(self, request: Request) -> object:
        """Every queue, parents before children."""
        rows = (
            ([name, path], partial(views.queue, name, partition, queue))
            for name, partition in self._partitions()
            for path, queue in sorted(partition.queues.items())
        )
        partitions = [views.partition(name, partition) for name, partition in self._partitions()]
        return page(request, "queues", rows, {**self._head(), "partitions": partitions})

    def nodes(self, request: Request) -> object:
        rows = (
            ([name, node_id], partial(views.node, name, node))
            for name, partition in self._partitions()
            for node_id, node in sorted(partition.nodes.items())
        )
        return page(request, "nodes", rows, self._head())

    def applications(self, request: Request) -> object:
        """In the order in which they were submitted, those that have ended too; of a `queue`, or one `application`."""
        rows = (
            ([name, application.seq], partial(views.application, name, application))
            for name, _, application in self._asked_for(request)
        )
        return page(request, "applications", rows, self._head())

    def _asked_for(self, request: Request) -> Iterator[tuple[str, Partition, Application]]:
        wanted, queue, found = request.get("application"), request.get("queue"), False
        for name, partition in self._partitions():
            for application in sorted(partition.applications.values(), key=lambda a: a.seq):
                if wanted in (None, application.id):
                    found = True
                    if queue in (None, application.queue.path):
                        yield name, partition, application
        if wanted is not None and not found:
            raise Refused(f"application {wanted!r} does not exist", 404)

    def rejections(self, request: Request) -> object:
        """Records of applications that were rejected, the latest of each ID."""
        rows = (
            ([name, rejected.at_ms, rejected.fact.application_id], partial(views.rejection, name, rejected))
            for name, partition in self._partitions()
            for rejected in sorted(partition.rejected.values(), key=lambda r: (r.at_ms, r.fact.application_id))
        )
        return page(request, "rejections", rows, self._head())

    def allocations(self, request: Request) -> object:
        """By UUID; of an `application`, of a `node`."""
        wanted, node_id = request.get("application"), request.get("node")
        rows = (
            ([name, uuid], partial(views.allocation, name, allocation))
            for name, partition in self._partitions()
            for uuid, allocation in sorted(partition.allocations.items())
            if wanted in (None, allocation.application.id) and node_id in (None, allocation.node.id)
        )
        return page(request, "allocations", rows, self._head())

    def usage(self, request: Request) -> object:
        """What each user has in each queue, and each group where a limit counts for it; of one `user`, one `group`."""
        wanted = [("user", request.get("user")), ("group", request.get("group"))]
        asked_for = {(kind, name) for kind, name in wanted if name is not None}
        rows = (
            ([name, usage.kind, usage.name, usage.queue], partial(views.usage, name, usage))
            for name, partition in self._partitions()
            for usage in usage_of(partition)
            if not asked_for or (usage.kind, usage.name) in asked_for
        )
        return page(request, "usage", rows, self._head())

    def explain(self, request: Request) -> object:
        """Of all pending asks, of those of a `queue` or an `application`, or of one (`key`): everything that is in the
        way now, and the place in the order."""
        key, explanations, positions = request.get("key"), Explanations(self._state), Positions()

        def row(name: str, partition: Partition, ask: PendingAsk) -> object:
            return views.explained(name, ask, explanations.of(partition, ask), positions.of(ask))

        rows = (
            ([name, application.seq, ask.seq], partial(row, name, partition, ask))
            for name, partition, application in self._asked_for(request)
            for ask in sorted(application.asks.values(), key=lambda a: a.seq)
            if key in (None, ask.ask.allocation_key)
        )
        return page(request, "asks", rows, self._head(), lambda: explanations.looks >= PAGE_NODE_LOOKS)

    def stats(self, request: Request) -> object:
        state = self._state
        partitions = state.partitions.values()
        return {
            "rm": state.rm_id,
            "state": state.rm_state,
            "registration": state.registration,
            "inbox_seq": state.inbox_seq,
            "request_seq": state.request_seq,
            "nodes": sum(len(p.nodes) for p in partitions),
            "applications": sum(not a.terminal for p in partitions for a in p.applications.values()),
            "allocations": sum(len(p.allocations) for p in partitions),
            "allocations_ever": state.next_allocation,
        }


def _handler(answer: Callable[[Request], object]) -> Callable[[Message], Any]:
    async def handle(message: Message) -> bytes:
        try:
            request = msgspec.json.decode(message.payload or b"{}")
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refused(f"the request is not JSON: {error}") from error
        if not isinstance(request, dict):
            raise Refused("the request is not a JSON object")
        return msgspec.json.encode(answer(request))

    return handle
