"""The requests of an RM: the calls of a ResourceManager that publish (000, RM and scheduler updates)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from remuda_bus.bus import Headers
from remuda_proto.constants import NODE_PARTITION
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments
from remuda_sdk.resource_manager.arguments import identifiers, several
from remuda_sdk.resource_manager.request_encoding import (
    RELEASABLE,
    Releasable,
    Request,
    RequestEncoder,
    check_kind,
    sized,
)
from remuda_sdk.resource_manager.request_publisher import Traced
from remuda_sdk.resource_manager.session import Session


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
        """A sender without traces leaves them out."""
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
