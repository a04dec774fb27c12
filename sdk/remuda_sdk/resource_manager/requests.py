"""The requests of an RM (000, RM and scheduler updates): the calls of a ResourceManager, the messages into which they
are encoded, and the publisher.

A published request is durable when the call returns. Requests keep the order of the calls, and each is stored once
however often it is sent.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from typing import TypeVar

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, Headers, Outgoing
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.streams.ordered_append import append_in_order
from remuda_bus.streams.split import split
from remuda_proto.constants import NODE_PARTITION
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments
from remuda_sdk.resource_manager.arguments import identifiers, several
from remuda_sdk.resource_manager.build import release_of
from remuda_sdk.resource_manager.callbacks import Session

# Asks, nodes or releases per message. The scheduler works on the first message while the next ones are sent.
MAX_ITEMS = 1_000

T = TypeVar("T")


Release = si.AllocationRelease | si.AllocationAskRelease


Releasable = Release | si.Allocation
RELEASABLE: tuple[type[Releasable], ...] = (si.Allocation, si.AllocationRelease, si.AllocationAskRelease)


Request = si.ApplicationRequest | si.AllocationRequest | si.NodeRequest | si.UpdateConfigurationRequest
KINDS: Mapping[str, type[Request]] = {
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "node": si.NodeRequest,
    "configuration": si.UpdateConfigurationRequest,
}


class RequestsOfRm:
    """The part of a ResourceManager that sends requests.

    Calls for several items take them one by one, in iterables, or both: `ask(one, two)`, `ask([one, two])`. Each call
    returns once the server has stored the request: the stream sequence of the (last) message, to which a DeadLetter
    refers; 0 when there was nothing to send. It raises Full when the stream stays full, Unanswered when the server
    stays away (both after `retry_for_s`), Superseded, and ValueError when one item is larger than the server accepts.
    An argument of a wrong type or value is a ValueError that names it; nothing is sent. `partition`: the name of the
    partition; empty: `default`."""

    _session: Session
    _encoder: RequestEncoder

    @property
    def _limit(self) -> int:
        raise NotImplementedError

    async def _publish(self, kind: str, payloads: Iterable[bytes]) -> int:
        raise NotImplementedError

    async def _publish_traced(self, kind: str, payloads: Iterable[bytes | Traced]) -> int:
        """Publish payloads with their traces. A sender without traces leaves them out."""
        return await self._publish(kind, (one if isinstance(one, bytes) else one[0] for one in payloads))

    async def send(self, kind: str, request: Request) -> int:
        """Send a whole request as it is. `kind`: allocation, application, node or configuration."""
        check_kind(kind, request)
        return await self._publish(kind, sized(request, self._limit))

    # Nodes

    async def report_nodes(self, *nodes: si.NodeInfo | Iterable[si.NodeInfo]) -> int:
        """Report new nodes. A node without an action is created open for allocations."""
        return await self._send_nodes(several("report_nodes", nodes, si.NodeInfo), si.NodeInfo.CREATE)

    async def update_nodes(self, *nodes: si.NodeInfo | Iterable[si.NodeInfo]) -> int:
        """Update the capacity, the occupied amounts and the attributes of known nodes. Absent fields stay
        unchanged."""
        return await self._send_nodes(several("update_nodes", nodes, si.NodeInfo), si.NodeInfo.UPDATE)

    async def drain(self, *node_ids: str | Iterable[str], partition: str = "") -> int:
        """Close nodes for new allocations."""
        return await self._act(identifiers("drain", node_ids), si.NodeInfo.DRAIN_NODE, partition)

    async def undrain(self, *node_ids: str | Iterable[str], partition: str = "") -> int:
        """Open drained nodes for allocations."""
        return await self._act(identifiers("undrain", node_ids), si.NodeInfo.DRAIN_TO_SCHEDULABLE, partition)

    async def decommission(self, *node_ids: str | Iterable[str], partition: str = "") -> int:
        """Remove nodes. The scheduler releases their allocations."""
        return await self._act(identifiers("decommission", node_ids), si.NodeInfo.DECOMISSION, partition)

    # Applications, asks, releases

    async def submit(self, *applications: si.AddApplicationRequest | Iterable[si.AddApplicationRequest]) -> int:
        """Submit applications."""
        items = several("submit", applications, si.AddApplicationRequest)
        return await self._publish("application", self._encoder.submissions(items, self._limit))

    async def remove(self, *application_ids: str | Iterable[str], partition: str = "") -> int:
        """Remove applications that have ended, with all their asks and allocations."""
        items = identifiers("remove", application_ids)
        arguments.text("partition", partition)
        return await self._publish("application", self._encoder.removals(items, partition, self._limit))

    async def ask(
        self, *asks: si.AllocationAsk | Iterable[si.AllocationAsk], traces: Mapping[str, Headers] | None = None
    ) -> int:
        """Ask for allocations. `traces`: by allocation key, the headers of the trace that an ask belongs to. Such an
        ask is a message of its own."""
        items = several("ask", asks, si.AllocationAsk)
        if not traces:
            return await self._publish("allocation", self._encoder.asks(items, self._limit))
        return await self._publish_traced("allocation", self._traced(items, traces))

    def _traced(self, asks: Iterable[si.AllocationAsk], traces: Mapping[str, Headers]) -> Iterator[bytes | Traced]:
        for trace, some in groupby(asks, lambda one: traces.get(one.allocationKey)):
            if trace is None:
                yield from self._encoder.asks(some, self._limit)
            else:
                yield from ((payload, trace) for one in some for payload in self._encoder.asks([one], self._limit))

    async def report_allocations(self, *allocations: si.Allocation | Iterable[si.Allocation]) -> int:
        """Report allocations that already run and were not reported with their node."""
        items = several("report_allocations", allocations, si.Allocation)
        return await self._publish("allocation", self._encoder.allocations(items, self._limit))

    async def release(self, *releases: Releasable | Iterable[Releasable]) -> int:
        """Release allocations (Allocation or AllocationRelease) and asks (AllocationAskRelease)."""
        items = several("release", releases, *RELEASABLE)
        return await self._publish("allocation", self._encoder.releases(items, self._limit))

    async def confirm(self, *releases: si.AllocationRelease | Iterable[si.AllocationRelease]) -> int:
        """Confirm releases that the scheduler has requested. Needed only with `confirm_releases=False`, or to confirm
        before the callback is processed."""
        items = several("confirm", releases, si.AllocationRelease)
        self._session.record_confirmed(items)
        return await self.release(items)

    async def update_configuration(
        self, text: str, *, policy_group: str = "", extra_config: Mapping[str, str] | None = None
    ) -> int:
        """Change the configuration. `text`: the text of a queues.yaml; empty: the configuration of the policy group.
        The scheduler reports a refusal as a DeadLetter."""
        request = si.UpdateConfigurationRequest(
            rmID=self._encoder.rm_id,
            policyGroup=arguments.text("policy_group", policy_group),
            config=arguments.text("text", text),
            extraConfig=arguments.text_map("extra_config", extra_config),
        )
        return await self.send("configuration", request)

    async def _send_nodes(self, nodes: Iterable[si.NodeInfo], action: si.NodeInfo.ActionFromRM.ValueType) -> int:
        return await self._publish("node", self._encoder.nodes(_acting(nodes, action), self._limit))

    async def _act(self, node_ids: Iterable[str], action: si.NodeInfo.ActionFromRM.ValueType, partition: str) -> int:
        attributes = {NODE_PARTITION: arguments.text("partition", partition)} if partition else None
        return await self._send_nodes((si.NodeInfo(nodeID=one, attributes=attributes) for one in node_ids), action)


def _acting(nodes: Iterable[si.NodeInfo], action: si.NodeInfo.ActionFromRM.ValueType) -> Iterable[si.NodeInfo]:
    for node in nodes:
        if node.action == si.NodeInfo.UNKNOWN_ACTION_FROM_RM:
            acting = si.NodeInfo(action=action)
            acting.MergeFrom(node)
            yield acting
        else:
            yield node


class RequestEncoder:
    """Encodes the requests of one RM into messages of at most `limit` bytes and `MAX_ITEMS` items each."""

    def __init__(self, rm_id: str) -> None:
        self.rm_id = rm_id

    def nodes(self, nodes: Iterable[si.NodeInfo], limit: int) -> Iterator[bytes]:
        for some in chunks(nodes):
            yield from sized(si.NodeRequest(rmID=self.rm_id, nodes=some), limit)

    def submissions(self, applications: Iterable[si.AddApplicationRequest], limit: int) -> Iterator[bytes]:
        for some in chunks(applications):
            yield from sized(si.ApplicationRequest(rmID=self.rm_id, new=some), limit)

    def removals(self, application_ids: Iterable[str], partition: str, limit: int) -> Iterator[bytes]:
        for some in chunks(application_ids):
            remove = [si.RemoveApplicationRequest(applicationID=one, partitionName=partition) for one in some]
            yield from sized(si.ApplicationRequest(rmID=self.rm_id, remove=remove), limit)

    def asks(self, asks: Iterable[si.AllocationAsk], limit: int) -> Iterator[bytes]:
        for some in chunks(asks):
            yield from sized(si.AllocationRequest(rmID=self.rm_id, asks=some), limit)

    def allocations(self, allocations: Iterable[si.Allocation], limit: int) -> Iterator[bytes]:
        for some in chunks(allocations):
            yield from sized(si.AllocationRequest(rmID=self.rm_id, allocations=some), limit)

    def releases(self, releases: Iterable[Releasable], limit: int) -> Iterator[bytes]:
        """Yield the messages of releases. A release without a termination type becomes STOPPED_BY_RM."""
        for some in chunks(releases):
            request = si.AllocationReleasesRequest()
            for one in some:
                _add_release(request, one)
            yield from sized(si.AllocationRequest(rmID=self.rm_id, releases=request), limit)


def check_kind(kind: str, request: object) -> None:
    """Check that the request is of this kind: a request of another kind would be read as something else. Raises
    ValueError."""
    expected = KINDS[arguments.one_of("kind", kind, tuple(KINDS))]
    if not isinstance(request, expected):
        arguments.wrong("request", request, f"{expected.__name__} as kind {kind!r}")


def chunks(items: Iterable[T]) -> Iterator[Sequence[T]]:
    left = iter(items)
    while some := list(islice(left, MAX_ITEMS)):
        yield some


def sized(request: Request, limit: int) -> Iterator[bytes]:
    """Yield the request, split into messages of at most `limit` bytes. Raises ValueError when one element alone is
    larger."""
    payload = request.SerializeToString()
    if len(payload) <= limit:
        yield payload
        return
    for part in split(request, limit):
        yield part.SerializeToString()


def _add_release(request: si.AllocationReleasesRequest, one: Releasable) -> None:
    if isinstance(one, si.Allocation):
        request.allocationsToRelease.append(release_of(one))
        return
    made: Release
    if isinstance(one, si.AllocationRelease):
        made = request.allocationsToRelease.add()
    else:
        made = request.allocationAsksToRelease.add()
    made.MergeFrom(one)  # type: ignore[arg-type]
    if made.terminationType == si.UNKNOWN_TERMINATION_TYPE:
        made.terminationType = si.STOPPED_BY_RM


Traced = tuple[bytes, Headers]  # a payload, and the headers of the trace that it belongs to


class RequestPublisher:
    """Publishes to the stream REQUESTS. `lock` keeps calls that run at the same time whole and in order.
    `registration`: the number of the registration that the requests belong to; 0: none. `limit`: the largest payload,
    in bytes."""

    def __init__(self, bus: Bus, rm_id: str, retry_for_s: float) -> None:
        self._bus = bus
        self._retry_for_s = retry_for_s
        self.lock = asyncio.Lock()
        self.registration = 0
        self._messages = RequestMessages(bus, rm_id, "rm.publish")
        self.limit = self._messages.limit

    async def publish(self, kind: str, payloads: Iterable[bytes | Traced]) -> int:
        """Publish the payloads; one without a trace begins its own. Returns the stream sequence of the last message;
        0: there was none. Raises Full, Unanswered."""
        async with self.lock:
            with ExitStack() as spans:
                messages = (self._message(kind, payload, spans) for payload in payloads)
                return await append_in_order(self._bus, messages, self._retry_for_s)

    def _message(self, kind: str, payload: bytes | Traced, spans: ExitStack) -> Outgoing:
        content, trace = (payload, None) if isinstance(payload, bytes) else payload
        return self._messages.message(kind, content, self.registration, spans, trace)

    def registration_header(self) -> dict[str, str]:
        """The header that names the registration."""
        return {subjects.REGISTRATION: str(self.registration)} if self.registration else {}


class RequestMessages:
    """Makes the messages of an RM for the stream REQUESTS. Each message has an ID of its own, so a message that is sent
    again is stored once. `limit`: the largest payload, in bytes. `span_name`: the name of the spans of requests."""

    def __init__(self, bus: Bus, rm_id: str, span_name: str) -> None:
        self._rm_id = rm_id
        self._span_name = span_name
        self._numbers = itertools.count(1)
        self._nonce = secrets.token_hex(6)  # keeps message IDs unique: numbers start at 1 in every process
        self.limit = bus.max_payload - HEADER_ROOM_BYTES

    def message(
        self,
        kind: str,
        payload: bytes,
        registration: int,
        spans: ExitStack,
        trace: Headers | None = None,
        number: str = "",
    ) -> Outgoing:
        """The message of a request of `kind`. `registration`: the number of the registration that the request belongs
        to; 0: none. `spans` ends the span of the request. `trace`: headers of the trace that the request belongs to;
        None: the current trace. `number` identifies the request among all requests of the RM, for a sender that may
        send the request again after a restart; empty: the request is new."""
        span = spans.enter_context(tracing.span(self._span_name, trace, rm=self._rm_id, kind=kind))
        headers = {
            **(trace or {}),
            **span.headers(),
            subjects.MSG_ID: f"{self._rm_id}.{number or f'{self._nonce}.{next(self._numbers)}'}",
        }
        if registration:
            headers[subjects.REGISTRATION] = str(registration)
        return Outgoing(subjects.request(self._rm_id, kind), payload, headers)
