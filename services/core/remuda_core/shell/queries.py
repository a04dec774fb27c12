"""Queries about one RM, answered in JSON from the state at a durable commit.

Long answers come in pages (`pages`). Times are in milliseconds since 1970, partition names are the RM's. `answering`
decides which process answers.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import asdict

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.status_codes import NOT_FOUND
from remuda_operations.queries.rows import Forecast, Stats
from remuda_proto.bounds import shown

from ..core import Core
from ..decide.names import plain
from ..explain import Explanations, Positions
from ..limits import LISTINGS, PAGE_NODE_LOOKS, SORTED_ANEW, SUMS_KEPT_S, SUMS_REST
from ..rules.connection import RUNNING
from ..state import Application, Partition, PendingAsk, Queue, State
from . import guests, views
from .fair_shares import FairShares
from .forecasts import Forecasts
from .overview import Waits, overview_of, waits_of
from .pages import Listing, page
from .topology import Standing, standing_of
from .usage import Usage, usage_of

Request = Mapping[str, Any]
V = TypeVar("V")


class Queries:
    """Keeps sorted listings, and sums for SUMS_KEPT_S, because queries for pages follow each other."""

    def __init__(self, core: Core, forecasts: Forecasts | None = None) -> None:
        """`forecasts`: None: of the past, which has none."""
        self._core = core
        self._forecasts = forecasts
        self._listings: OrderedDict[int, Listing[Any]] = OrderedDict()
        self._usage: tuple[float, list[tuple[str, list[Usage]]]] = (0.0, [])
        self._positions: tuple[float, Positions] = (0.0, Positions(core.index))
        self._waits: tuple[float, dict[str, Waits]] = (0.0, {})
        self._fair_shares = FairShares(core.state)
        self._standing: tuple[float, dict[str, Standing]] = (0.0, {})
        self.kinds: dict[str, Callable[[Request], dict[str, object]]] = {
            "queues": self.queues,
            "nodes": self.nodes,
            "topology": self.topology,
            "windows": self.windows,
            "applications": self.applications,
            "rejections": self.rejections,
            "allocations": self.allocations,
            "asks": self.asks,
            "usage": self.usage,
            "explain": self.explain,
            "forecasts": self.forecasts,
            "actions": self.actions,
            "stats": self.stats,
            "overview": self.overview,
            subjects.GUESTS: self.guests,
        }

    @property
    def _state(self) -> State:
        return self._core.state

    def _head(self) -> dict[str, object]:
        return {"rm": self._state.rm_id, "state": self._state.rm_state}

    def _partitions(self, request: Request) -> list[tuple[str, Partition, Any]]:
        """The partitions in the order of all rows, by plain name, each with the place behind which its rows begin."""
        after = request.get("after")
        begin = after[0] if isinstance(after, list) and after and isinstance(after[0], str) else ""
        named = sorted((plain(partition.name), partition) for partition in self._state.partitions.values())
        return [(name, one, after if name == begin else None) for name, one in named if name >= begin]

    def _listed(
        self, entries: dict[Any, V], place: Callable[[Any, V], Any], after: Any, number: int = 1
    ) -> Iterator[V]:
        """The entries behind the place at `number` in `after`; may include some before it."""
        found = self._listings.pop(id(entries), None)
        if found is None or found.entries is not entries:
            found = Listing(entries, place)
        if len(entries) > SORTED_ANEW:  # few are sorted quickly, and must not replace listings of many
            self._listings[id(entries)] = found
        if len(self._listings) > LISTINGS:
            self._listings.popitem(last=False)
        begin = after[number] if isinstance(after, list) and len(after) > number else None
        try:
            for _, entry in found.after(begin):
                yield entry
        except TypeError:
            raise Refused(f"after is {after!r}, expected the `next` of the page before") from None

    def queues(self, request: Request) -> dict[str, object]:
        """All queues, parents before children; with `draining`, those that drain. How many asks wait is about
        SUMS_KEPT_S old."""
        only_draining = request.get("draining", False)
        if not isinstance(only_draining, bool):
            raise Refused(f"draining is {shown(only_draining)}, expected true or false")
        waits = self._waiting()

        def row(name: str, partition: Partition, queue: Queue) -> object:
            wait = waits[name].of(queue)
            share = self._fair_shares.of_queue(partition, queue)
            return views.queue(name, partition, queue, wait.pieces, wait.since_ms, wait.reasons, share)

        rows = (
            ([name, queue.path], partial(row, name, partition, queue))
            for name, partition, after in self._partitions(request)
            for queue in self._listed(partition.queues, lambda path, _: path, after)
            if queue.draining or not only_draining
        )
        every = self._partitions({})
        partitions = [views.partition(name, partition) for name, partition, _ in every]
        return page(request, "queues", rows, {**self._head(), "partitions": partitions})

    def nodes(self, request: Request) -> dict[str, object]:
        rows = (
            ([name, node.id], partial(views.node, name, node, partition))
            for name, partition, after in self._partitions(request)
            for node in self._listed(partition.nodes, lambda node_id, _: node_id, after)
        )
        return page(request, "nodes", rows, self._head())

    def windows(self, request: Request) -> dict[str, object]:
        """The windows of calendars by name, and when each comes."""
        rows = (
            ([name, window.name], partial(views.window, name, window, partition, nodes.get(window.name, ())))
            for name, partition, _ in self._partitions(request)
            for nodes in (views.nodes_of_windows(partition),)
            for window in sorted(partition.settings.calendar, key=lambda window: window.name)
        )
        return page(request, "windows", rows, self._head())

    def topology(self, request: Request) -> dict[str, object]:
        """Domains with what is used there, parents before children; and of each partition its levels, its devices and
        the groups that wait. At most about SUMS_KEPT_S old."""
        standing = self._stand()
        rows = (
            ([name, number], partial(standing[name].domain_row, name, domain))
            for name, _, _ in self._partitions(request)
            for number, domain in enumerate(standing[name].domains)
        )
        partitions = [standing[name].partition_row(name) for name, _, _ in self._partitions({})]
        return page(request, "domains", rows, {**self._head(), "partitions": partitions})

    def _stand(self) -> dict[str, Standing]:
        """By the plain name of each partition."""
        until, known = self._standing
        every = self._partitions({})
        if time.monotonic() >= until or any(name not in known for name, _, _ in every):
            began = time.monotonic()
            known = {name: standing_of(one) for name, one, _ in every}
            now = time.monotonic()
            self._standing = now + max(SUMS_KEPT_S, SUMS_REST * (now - began)), known
        return known

    def applications(self, request: Request) -> dict[str, object]:
        """Applications in the order of submission, including ended ones; of a `queue`, or one `application`."""
        rows = (
            ([name, application.seq], partial(views.application, name, application))
            for name, _, application, _ in self._asked_for(request)
        )
        return page(request, "applications", rows, self._head())

    def _asked_for(
        self, request: Request, inclusive: bool = False
    ) -> Iterator[tuple[str, Partition, Application, Any]]:
        """Applications behind `after`; `inclusive`: also the one with which the last page has ended."""
        wanted, path, found = _text(request, "application"), _path(request), False
        for name, partition, after in self._partitions(request):
            if wanted is not None:
                one = partition.applications.get(wanted)
                found = found or one is not None
                if one is not None and path in (None, one.queue.path):
                    yield name, partition, one, after
                continue
            if inclusive and isinstance(after, list) and len(after) > 1 and isinstance(after[1], int):
                begin: Any = [after[0], after[1] - 1, *after[2:]]
            else:
                begin = after
            queue = None if path is None else partition.queues.get(path)
            if path is None or queue is not None:
                among = partition.applications if queue is None else queue.applications
                for application in self._listed(among, lambda _, a: a.seq, begin):
                    yield name, partition, application, after
        if wanted is not None and not found and request.get("after") is None:
            raise Refused(f"application {wanted[:64]!r} does not exist", NOT_FOUND)

    def rejections(self, request: Request) -> dict[str, object]:
        """Records of rejected applications, the latest of each ID. There are few."""
        rows = (
            ([name, rejected.at_ms, rejected.fact.application_id], partial(views.rejection, name, rejected))
            for name, partition, _ in self._partitions(request)
            for rejected in sorted(partition.rejected.values(), key=lambda r: (r.at_ms, r.fact.application_id))
        )
        return page(request, "rejections", rows, self._head())

    def allocations(self, request: Request) -> dict[str, object]:
        """Allocations sorted by UUID; of an `application` or a `node`, or all."""
        wanted, node_id = _text(request, "application"), _text(request, "node")

        def among(partition: Partition) -> dict[str, Any]:
            if wanted is not None:
                application = partition.applications.get(wanted)
                return application.allocations if application is not None else {}
            node = None if node_id is None else partition.nodes.get(node_id)
            return partition.allocations if node_id is None else node.allocations if node is not None else {}

        rows = (
            ([name, allocation.fact.uuid], partial(views.allocation, name, allocation))
            for name, partition, after in self._partitions(request)
            for allocation in self._listed(among(partition), lambda uuid, _: uuid, after)
            if wanted in (None, allocation.application.id) and node_id in (None, allocation.node.id)
        )
        return page(request, "allocations", rows, self._head())

    def usage(self, request: Request) -> dict[str, object]:
        """Usage of each user, and of each group with a limit, in each queue; of one `user` or `group`, or all. At most
        SUMS_KEPT_S old."""
        wanted = [(kind, _text(request, kind)) for kind in ("user", "group")]
        asked_for = {(kind, name) for kind, name in wanted if name is not None}
        if time.monotonic() - self._usage[0] >= SUMS_KEPT_S:
            partitions = self._partitions({})
            self._usage = time.monotonic(), [(name, usage_of(one, self._fair_shares)) for name, one, _ in partitions]
        rows = (
            ([name, usage.kind, usage.name, usage.queue], partial(views.usage, name, usage))
            for name, usages in self._usage[1]
            for usage in usages
            if not asked_for or (usage.kind, usage.name) in asked_for
        )
        return page(request, "usage", rows, self._head())

    def explain(self, request: Request) -> dict[str, object]:
        """The constraints and queue positions of pending asks: all, those of a `queue` or an `application`, or one
        (`key`). With who holds what an ask waits for, if the request names the application. Positions are at most
        SUMS_KEPT_S old."""
        named = _text(request, "application") is not None
        explanations, positions = Explanations(self._state, self._core.index), self._counted()
        self._index()

        def row(name: str, partition: Partition, ask: PendingAsk) -> object:
            found = explanations.of(partition, ask)
            holders = [explanations.holders(partition, ask, one) for one in found] if named else []
            key = name, ask.application.id, ask.ask.allocation_key
            forecast = self._forecasts.find(key) if self._forecasts is not None else None
            return views.explained(name, ask, found, positions.of(ask), holders, forecast)

        rows = ((place, partial(row, name, partition, ask)) for place, name, partition, ask in self._pending(request))
        return page(request, "asks", rows, self._head(), lambda: explanations.looks >= PAGE_NODE_LOOKS)

    def forecasts(self, request: Request) -> dict[str, object]:
        """When pending asks will start, by the last forecast: all, those of an `application`, or one (`key`)."""
        application, key = _text(request, "application"), _text(request, "key")
        if application is not None and all(
            application not in one.applications for one in self._state.partitions.values()
        ):
            raise Refused(f"application {application[:64]!r} does not exist", NOT_FOUND)
        found = self._forecasts.pending(self._state, application, key) if self._forecasts is not None else []

        def row(forecast: Forecast) -> object:
            return forecast

        places = ([one.partition, one.position, one.application, one.key] for one in found)
        rows = ((place, partial(row, one)) for place, one in zip(places, found, strict=True))
        return page(request, "forecasts", rows, self._head())

    def actions(self, request: Request) -> dict[str, object]:
        """The outcomes of operators' actions that are remembered; of one `action`, by its ID with or without the
        operator's name."""
        wanted = _text(request, "action")
        rows = (
            ([action_id], partial(views.action, outcome, self._state.action_times.get(action_id, 0)))
            for action_id, outcome in sorted(self._state.actions.items(), key=lambda known: known[0])
            if wanted in (None, action_id, action_id.partition("/")[2])
        )
        return page(request, "actions", rows, self._head())

    def asks(self, request: Request) -> dict[str, object]:
        """Pending asks, without the reasons why they wait: all, those of a `queue` or an `application`, or one
        (`key`)."""
        rows = ((place, partial(views.ask, name, ask)) for place, name, _, ask in self._pending(request))
        return page(request, "asks", rows, self._head())

    def _pending(self, request: Request) -> Iterator[tuple[list[Any], str, Partition, PendingAsk]]:
        """The pending asks that the request is about, each with its place, in the order of rows."""
        key = _text(request, "key")
        for name, partition, application, after in self._asked_for(request, inclusive=True):
            if key is not None:
                asks: Iterable[PendingAsk] = [application.asks[key]] if key in application.asks else []
            else:
                here = isinstance(after, list) and len(after) > 2 and after[1] == application.seq
                asks = self._listed(application.asks, lambda _, a: a.seq, after if here else None, 2)
            for ask in asks:
                yield [name, application.seq, ask.seq], name, partition, ask

    def _waiting(self) -> dict[str, Waits]:
        """By the plain name of each partition. A partition that has come since is computed at once."""
        until, known = self._waits
        every = self._partitions({})
        if time.monotonic() >= until or any(name not in known for name, _, _ in every):
            began = time.monotonic()
            known = {name: waits_of(one) for name, one, _ in every}
            now = time.monotonic()
            self._waits = now + max(SUMS_KEPT_S, SUMS_REST * (now - began)), known
        return known

    def _counted(self) -> Positions:
        if time.monotonic() - self._positions[0] >= SUMS_KEPT_S:
            self._positions = time.monotonic(), Positions(self._core.index)
        return self._positions[1]

    def _index(self) -> None:
        """Build the index of a follower, which only explanations need."""
        if self._state.rm_state == RUNNING:
            for partition in self._state.partitions.values():
                self._core.index.of(self._state, partition)

    def guests(self, request: Request) -> dict[str, object]:
        """A tag of the nodes of `partition`, the maximum of `queue` there, and a tag of each application whose ID
        begins with `prefix`: they show a reader what has changed."""
        wanted, path, prefix = _text(request, "partition"), _path(request), _text(request, "prefix")
        if wanted is None or path is None or prefix is None:
            raise Refused("guests: expected the texts partition, queue and prefix")
        among = [(name, one, after) for name, one, after in self._partitions(request) if name == wanted]
        head = {"partition": guests.partition_row(among[0][1], path) if among else None}
        rows = (
            ([name, application.seq], partial(guests.application_row, name, application))
            for name, partition, after in among
            for application in self._listed(partition.applications, lambda _, a: a.seq, after)
            if application.id.startswith(prefix)
        )
        return page(request, "guests", rows, {**self._head(), **head})

    def overview(self, request: Request) -> dict[str, object]:
        """Sums of the RM and its partitions; queues that are owed something, asks that fit nowhere, devices that are
        idle although asks wait for them; what operators hold, drain and have done last."""
        return {**self._head(), **overview_of(self._state, self._waiting())}

    def stats(self, request: Request) -> dict[str, object]:
        state, registered, configuration = self._state, self._state.registered, self._state.configuration
        partitions = state.partitions.values()
        return asdict(
            Stats(
                rm=state.rm_id,
                state=state.rm_state,
                registration=state.registration,
                policy_group=registered.policy_group if registered is not None else "",
                build_info=registered.build_info if registered is not None else {},
                configuration=configuration.checksum if configuration is not None else "",
                inbox_seq=state.inbox_seq,
                request_seq=state.request_seq,
                nodes=sum(len(p.nodes) for p in partitions),
                applications=sum(not a.terminal for p in partitions for a in p.applications.values()),
                allocations=sum(len(p.allocations) for p in partitions),
                allocations_ever=state.next_allocation,
            )
        )


def _path(request: Request) -> str | None:
    """The path in the field `queue`. Names of queues are compared in lower case."""
    path = _text(request, "queue")
    return None if path is None else path.lower()


def _text(request: Request, name: str) -> str | None:
    """The text in the field `name`; None: the field is missing. Raises Refused when it is no text."""
    value = request.get(name)
    if value is not None and not isinstance(value, str):
        raise Refused(f"{name} is {shown(value)}, expected a text")
    return value
