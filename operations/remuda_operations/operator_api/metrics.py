"""`remuda.v1.Metrics`: figures for dashboards, from the answers of cores and from the streams."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_operations.operator_api import state
from remuda_operations.operator_api.messages import Caller, Row, add_rows, ask, filled, rm_of, set_head
from remuda_operations.queries import core, records
from remuda_operations.queries.services import services
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.remuda.v1 import metrics_pb2 as metrics

# Between two samples of metrics: each is three queries.
METRICS_INTERVAL_MS = 5_000
METRICS_LEAST_INTERVAL_MS = 1_000
METRICS_MOST_INTERVAL_MS = 3_600_000

Amounts = Mapping[str, int]


async def get_system(bus: Bus, caller: Caller, _: metrics.GetSystemRequest) -> metrics.SystemMetrics:
    cores, front_ends, found, rms, halts = await asyncio.gather(
        state.list_cores(bus, caller, admin.ListCoresRequest()),
        state.list_front_ends(bus, caller, admin.ListFrontEndsRequest()),
        services(bus),
        records.resource_managers(bus),
        records.halts(bus),
    )
    return metrics.SystemMetrics(
        at_ms=time.time_ns() // 1_000_000,
        services=Counter(one.service for one in found),
        cores=cores.cores,
        front_ends=front_ends.front_ends,
        resource_managers=Counter(str(rm.get("state", "")) for rm in rms),
        halted=len(halts),
        streams={stream.name: await bus.fullness(stream.name) for stream in subjects.STREAMS},
        behind_ms=max((replica.behind_ms for one in cores.cores for replica in one.rms), default=0),
    )


async def get_resource_manager(
    bus: Bus, _: Caller, request: metrics.GetResourceManagerRequest | metrics.FollowResourceManagerRequest
) -> metrics.ResourceManagerMetrics:
    rm = rm_of(request)
    stats, queues = await asyncio.gather(ask(bus, "stats", request), core.queues(bus, rm))
    response = filled(metrics.ResourceManagerMetrics(), stats)
    set_head(response.head, stats)
    for one in queues.partitions:
        amounts = {"total": one.total, "allocated": one.allocated, "pending": one.queues.pending}
        shares = {"utilisation": utilisation(one.allocated, one.total)}
        filled(response.partitions.add(), {"name": one.name, "nodes": one.nodes, **amounts, **shares})
    response.requests_waiting = await bus.message_count(subjects.REQUESTS.name, subjects.request(rm, "*"))
    consumer = await bus.consumer_state(subjects.CALLBACKS.name, subjects.callback_consumer(rm))
    response.callbacks_waiting = consumer.waiting if consumer is not None else 0
    return response


async def follow_resource_manager(
    bus: Bus, caller: Caller, request: metrics.FollowResourceManagerRequest
) -> AsyncGenerator[metrics.ResourceManagerMetrics]:
    interval_ms = request.interval_ms or METRICS_INTERVAL_MS
    least, most = METRICS_LEAST_INTERVAL_MS, METRICS_MOST_INTERVAL_MS
    if not least <= interval_ms <= most:
        raise Refused(f"interval_ms is {interval_ms:,}, expected {least:,} to {most:,}")
    before: metrics.ResourceManagerMetrics | None = None
    while True:
        sample = await get_resource_manager(bus, caller, request)
        if before is not None and sample.head.at_ms > before.head.at_ms:
            elapsed_s = (sample.head.at_ms - before.head.at_ms) / 1_000
            sample.allocations_per_s = max(0, sample.allocations_ever - before.allocations_ever) / elapsed_s
        before = sample
        yield sample
        await asyncio.sleep(interval_ms / 1_000)


async def get_queues(bus: Bus, _: Caller, request: metrics.GetQueuesRequest) -> metrics.QueueMetricsPage:
    answer = await ask(bus, "queues", request)
    response = metrics.QueueMetricsPage()
    set_head(response.head, answer)
    await add_rows(response.queues, map(_queue, answer["queues"]))
    return response


async def get_nodes(bus: Bus, _: Caller, request: metrics.GetNodesRequest) -> metrics.NodeMetrics:
    """The figures of all nodes. All pages are read; figures of later pages may be of later commits."""
    response, sums, after = metrics.NodeMetrics(), _Distribution(), None
    while True:
        answer = await core.ask_core(
            bus, "nodes", dict[str, Any], rm=rm_of(request), **({} if after is None else {"after": after})
        )
        for node in answer["nodes"]:
            response.nodes += 1
            response.statuses[node["status"]] += 1
            response.reserved += bool(node.get("reserved_for"))
            response.idle += not node["allocations"]
            sums.add(node)
        after = answer.get("next")
        if after is None:
            set_head(response.head, answer)
            sums.into(response)
            return response


def utilisation(used: Amounts, of: Amounts) -> dict[str, float]:
    """The used part of each amount, from 0 to 1, by resource. Resources without an amount are absent."""
    return {name: used.get(name, 0) / amount for name, amount in of.items() if amount > 0}


def _queue(row: Row) -> Row:
    shares = utilisation(row["allocated"], row["max_in_force"])
    return {**row, "utilisation": shares, "fullness": max(shares.values(), default=0.0)}


@dataclass(slots=True)
class _Distribution:
    """The utilisation of nodes by resource."""

    used: Counter[str] = field(default_factory=Counter)
    capacity: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, list[int]] = field(default_factory=dict)

    def add(self, node: Row) -> None:
        for name, capacity in node["capacity"].items():
            if capacity > 0:
                used = node["allocated"].get(name, 0) + node["occupied"].get(name, 0)
                self.used[name] += used
                self.capacity[name] += capacity
                tenth = min(max(10 * used // capacity, 0), 9)
                self.nodes.setdefault(name, [0] * 10)[tenth] += 1

    def into(self, response: metrics.NodeMetrics) -> None:
        for name, counts in self.nodes.items():
            response.utilisation[name].mean = self.used[name] / self.capacity[name]
            response.utilisation[name].nodes.extend(counts)
