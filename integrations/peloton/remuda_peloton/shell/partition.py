"""The partition of a resource manager (RM) in which Peloton's tasks are guests: queries to its core, and requests that
rmproxy puts into its inbox."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_operations.queries.guests import tag_of_application, tag_of_nodes
from remuda_proto.guests import prefix_of
from remuda_proto.si.v1 import si_pb2 as si

from .. import limits
from ..rules.resources import Vector
from ..sharing import GuestAllocation, GuestAsk, Held
from ..wire.guests import SLACK, vector_of

TERMINAL: Final = frozenset({"Failing", "Completed", "Failed", "Expired", "Killed", "Rejected"})
Row = Mapping[str, Any]


class View(msgspec.Struct, frozen=True):
    """The partition at one position of the core's log. `nodes`: the same object as long as no node changes. `capacity`:
    the maximum of the queue; `slack_cpu`: cores of slack beside it. `content`: grows when anything but `log_seq`
    changes."""

    log_seq: int
    nodes: tuple[Row, ...]
    capacity: Vector
    slack_cpu: float
    held: Held
    content: int = 0


class Contents(msgspec.Struct, frozen=True):
    """The asks and allocations of an application. `tag`: equal tags stand for equal contents."""

    tag: str
    asks: tuple[GuestAsk, ...]
    allocations: tuple[GuestAllocation, ...]

    @classmethod
    def of(cls, asks: Iterable[Row], allocations: Iterable[Row]) -> Contents:
        waiting = tuple(GuestAsk(row["key"], row["application"], row["required_node"]) for row in asks)
        held = tuple(
            GuestAllocation(row["uuid"], row["key"], row["application"], row["node"], bool(row["releasing"]))
            for row in allocations
        )
        tag = tag_of_application(
            ((one.key, one.node) for one in waiting), ((one.uuid, one.key, one.node, one.releasing) for one in held)
        )
        return cls(tag, waiting, held)


class NotReady(Exception):
    """The RM, its partition or its queue is not there, or its core is behind. Says which."""


class Partition:
    """A partition of an RM in which Peloton's tasks are guests. `name`: the plain name of the partition. `queue`: the
    queue above the queues of Peloton's pools."""

    def __init__(self, bus: Bus, rm_id: str, name: str, queue: str, cluster: str) -> None:
        self._bus, self._rm_id, self._name, self._queue, self._cluster = bus, rm_id, name, queue, cluster
        self._sent = 0  # position in the inbox of the newest request
        self._view: View | None = None
        self._nodes: tuple[Row, ...] = ()
        self._nodes_tag = ""
        self._contents: dict[str, Contents] = {}  # by application
        self._last: View | None = None  # what was read last, and what it was made of
        self._parts: Any = None

    @property
    def full_name(self) -> str:
        return f"{self._rm_id}/{self._name}"

    async def view(self) -> View:
        """The view of the partition after the core has handled all requests of this process. Raises NotReady,
        BusError."""
        async with asyncio.timeout(limits.PARTITION_BEHIND_S):
            while True:
                stats = await self._query("stats", {})
                if stats["inbox_seq"] >= self._sent:
                    break
                await asyncio.sleep(limits.PARTITION_POLL_S)
        log_seq = int(stats["log_seq"])
        if self._view is None or self._view.log_seq != log_seq:
            self._view = await self._read(log_seq)
        return self._view

    async def _read(self, log_seq: int) -> View:
        """The view at the commit `log_seq`. If a node has changed, all nodes are read again; of applications, the
        changed ones."""
        about = {"partition": self._name, "queue": self._queue, "prefix": prefix_of(self._cluster)}
        tagged = await self._pages(subjects.GUESTS, about, log_seq)
        there = tagged[0]["partition"]
        if there is None or there["queue"] is None or there["queue"]["leaf"]:
            raise NotReady(f"{self.full_name}: queue {self._queue} is not there, or is a leaf; expected a parent")
        if self._nodes_tag != there["nodes"]:
            self._nodes = tuple(await self._rows("nodes", {}, log_seq))
            self._nodes_tag = tag_of_nodes(self._nodes)
        applications = [row for page in tagged for row in page["guests"]]
        self._contents = await self._contents_of(applications, log_seq)
        return self._made(log_seq, there, frozenset(str(one["id"]) for one in applications if _is_alive(one)))

    def _made(self, log_seq: int, there: Row, alive: frozenset[str]) -> View:
        """The view before, if nothing in it is another one: the RM has its own affairs."""
        most: dict[str, int] = dict(there["queue"]["max_in_force"])
        contents = tuple(self._contents.values())
        parts = (self._nodes_tag, most, alive, {name: one.tag for name, one in self._contents.items()})
        if self._last is not None and parts == self._parts:
            self._last = replace(self._last, log_seq=log_seq)
            return self._last
        held = Held(
            alive, tuple(itertools.chain.from_iterable(one.asks for one in contents)),
            tuple(itertools.chain.from_iterable(one.allocations for one in contents)),
        )  # fmt: skip
        content = self._last.content + 1 if self._last is not None else 1
        self._parts = parts
        self._last = View(log_seq, self._nodes, vector_of(most), most.get(SLACK, 0) / 1_000, held, content)
        return self._last

    async def _contents_of(self, applications: Sequence[Row], log_seq: int) -> dict[str, Contents]:
        """The contents by application. All asks are read before any allocation: an ask that is allocated meanwhile is
        seen, as either or as both."""
        known = self._contents
        changed = [one for one in applications if one["id"] not in known or known[one["id"]].tag != one["tag"]]
        asks = await self._of_each("asks", [one["id"] for one in changed if one["asks"]], log_seq)
        allocations = await self._of_each("allocations", [one["id"] for one in changed], log_seq)
        read = {name: Contents.of(asks.get(name, ()), rows) for name, rows in allocations.items()}
        return {one["id"]: read.get(one["id"]) or known[one["id"]] for one in applications}

    async def _of_each(self, kind: str, applications: Sequence[str], log_seq: int) -> dict[str, list[Row]]:
        some = asyncio.Semaphore(limits.PARTITION_QUERIES)

        async def rows(application: str) -> list[Row]:
            async with some:
                return await self._rows(kind, {"application": application}, log_seq)

        return dict(zip(applications, await asyncio.gather(*map(rows, applications)), strict=True))

    async def why(self, application: str, key: str) -> str:
        """Why the ask waits, in the core's words; empty: the core does not know it."""
        try:
            rows = await self._rows("explain", {"application": application, "key": key}, 0)
        except Refused:
            rows = []
        if rows:
            return str(rows[0]["reason"])
        rejected = [one for one in await self._rows("rejections", {}, 0) if one["id"] == application]
        return f"{self.full_name} refuses {application}: {rejected[-1]['reason']}" if rejected else ""

    async def send(self, request: Any) -> None:
        """An ApplicationRequest or an AllocationRequest. Raises BusError; then it may have been sent, or not."""
        kind = "application" if isinstance(request, si.ApplicationRequest) else "allocation"
        request.rmID = self._rm_id
        subject = subjects.guest_request(self._cluster, self._rm_id, kind)
        self._view = None
        answer = await self._bus.request(subject, request.SerializeToString(), timeout_s=limits.PARTITION_REQUEST_S)
        self._sent = int(json.loads(answer.payload)["inbox_seq"])

    async def submit(self, applications: Sequence[tuple[str, str, Mapping[str, str]]]) -> None:
        """Each with its ID, its queue, and the tags with its quota."""
        for some in parts(applications):
            new = [
                si.AddApplicationRequest(applicationID=one, queueName=queue, partitionName=self._name, tags=tags)
                for one, queue, tags in some
            ]
            await self.send(si.ApplicationRequest(new=new))

    async def ask(self, asks: Sequence[si.AllocationAsk]) -> None:
        for ask in asks:
            ask.partitionName = self._name
        for some in parts(asks):
            await self.send(si.AllocationRequest(asks=some))

    async def give_back(self, asks: Sequence[GuestAsk], allocations: Sequence[GuestAllocation], why: str) -> None:
        for some in parts(asks):
            rows = [
                si.AllocationAskRelease(
                    partitionName=self._name, applicationID=one.application, allocationKey=one.key,
                    terminationType=si.STOPPED_BY_RM, message=why,
                )
                for one in some
            ]  # fmt: skip
            await self.send(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocationAsksToRelease=rows)))
        for held in parts(allocations):
            gone = [
                si.AllocationRelease(
                    partitionName=self._name, applicationID=one.application, UUID=one.uuid, allocationKey=one.key,
                    terminationType=si.STOPPED_BY_RM, message=why,
                )
                for one in held
            ]  # fmt: skip
            await self.send(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocationsToRelease=gone)))

    async def _rows(self, kind: str, request: dict[str, Any], log_seq: int) -> list[Row]:
        """Rows of all pages that are in the partition."""
        name = "asks" if kind == "explain" else kind
        pages = await self._pages(kind, request, log_seq)
        return [row for page in pages for row in page[name] if row["partition"] == self._name]

    async def _pages(self, kind: str, request: dict[str, Any], log_seq: int) -> list[dict[str, Any]]:
        """The pages of a query. An application that is gone meanwhile has no further pages."""
        found: list[dict[str, Any]] = []
        asked = {**request, "min_log_seq": log_seq}
        while True:
            try:
                answer = await self._query(kind, asked)
            except Refused as refusal:
                if refusal.code == limits.NO_SUCH_ROWS and "application" in request:
                    return found
                raise
            found.append(answer)
            if not answer.get("next"):
                return found
            asked["after"] = answer["next"]

    async def _query(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        subject = subjects.core_query(self._rm_id, kind)
        answer = await self._bus.request(subject, json.dumps(request).encode(), timeout_s=limits.PARTITION_REQUEST_S)
        found = json.loads(answer.payload)
        if not isinstance(found, dict):
            raise NotReady(f"{subject} answered {str(found)[:100]!r}")
        return found


def _is_alive(application: Row) -> bool:
    return application["state"] not in TERMINAL


def parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Few enough for one message: rmproxy does not divide requests of guests."""
    for first in range(0, len(items), limits.GUESTS_PER_REQUEST):
        yield items[first : first + limits.GUESTS_PER_REQUEST]
