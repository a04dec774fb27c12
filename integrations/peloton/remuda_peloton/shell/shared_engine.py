"""The engine of hosts that are shared with a resource manager (RM) of si.v1: its core decides where Peloton's tasks go.

In each turn the engine reads what the RM's partition holds for the cluster and what the cluster's runs are, and sends
the difference. It keeps nothing but the gangs that it has taken: those of an engine that is killed are PLACING until
their time-out, and what it had asked for is given back by the next one. (docs/adr/shared-hosts.md)

The order makes it safe. It reads the partition first and the runs afterwards, and those only count if they are of its
own epoch and have its newest placements: so it never gives back what a run uses, however late it is.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any, NamedTuple

import structlog
from msgspec.structs import replace

from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

from .. import limits
from ..rules.hosts import Host
from ..sharing import Difference, Held, Listing, Outdated, difference
from ..wire.guests import FreePorts, HeldGang, Names, application_of, ask_of, host_of_node, key_of, placement, why_never
from ..wire.host_rpcs import host_of
from ..wire.messages import codec
from . import shared_metrics as metrics
from .engine import Caller
from .partition import Partition, View

log = structlog.get_logger()
_write_host, _ = codec(Host)


class Followed(Exception):
    """Another engine places there now."""


class Behind(Exception):
    """The process that answers does not know the newest placements yet."""


class Failed(NamedTuple):
    """A gang that is not placed. `why`: in words; `reason`: as in the metric."""

    gang: HeldGang
    why: str
    reason: str


class SharedEngine:
    """The engine of shared hosts. `hold_s`: how long it tries to place a gang, tries to find an allocation for a run
    that has none, and waits for a node that the RM has not reported since it registered; then the gang fails, and the
    runs are preempted. `ports`: first and last of each host; (0, 0): none."""

    def __init__(
        self, partition: Partition, cluster: str, queue: str, task_type: int = 0, refresh_s: float = 0.2,
        hold_s: float = 10.0, ports: tuple[int, int] = (0, 0), clock_s: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._partition, self._names = partition, Names(cluster, queue)
        self._type, self._refresh_s, self._hold_s, self._ports = task_type, refresh_s, hold_s, ports
        self._clock_s = clock_s
        self._held: list[HeldGang] = []
        self._given_back: set[str] = set()  # allocations, whether the core has read it or not
        self._unbacked: dict[str, float] = {}  # since when runs have no allocation, by key
        self._preempted: dict[str, float] = {}
        self._unreported: dict[str, float] = {}  # since when hosts with allocations are no nodes
        self._epoch = self._number = 0
        self._is_level = False  # nothing was to be sent: what an engine before has left is gone
        self._listing = self._no_listing()
        self._nodes: tuple[Any, dict[str, Host]] = ((), {})  # rows of nodes, and the hosts that they are
        self._settled: tuple[int, int] | None = None  # what was compared last, if nothing of it is left to be done

    async def run(self, call: Caller) -> None:
        """Run until an RPC or a request fails, with its error."""
        await self.take_over(call)
        while True:
            await self.turn(call)

    async def take_over(self, call: Caller) -> None:
        view = await self._partition.view()
        self._listing, self._settled = self._no_listing(), None
        await self._list(call)
        self._epoch, self._number, self._is_level = self._listing.shared.epoch + 1, 0, False
        await self._share(call, view, takes_over=True)

    async def turn(self, call: Caller) -> None:
        if self._is_level:
            await self._take_gangs(call)
        began_s = self._clock_s()
        view = await self._partition.view()
        await self._list(call)
        self._check(self._listing.shared)
        if not self._held and self._settled is not None and self._settled == (view.content, self._listing.changes):
            metrics.turn_over(self._clock_s() - began_s)
            return
        await self._share(call, view)
        runs, placed, pools = self._listing.runs, self._listing.placed.values(), self._listing.pools
        for gang in self._held:
            gang.keep(self._listing.taken)
        nodes = {str(node["id"]): node for node in view.nodes}
        failed = self._hopeless(runs, pools, view)
        known = self._listing.wishes.values()
        away = any(wish.hostname not in nodes for wish in known)
        backed = {(one.key, one.node) for one in view.held.allocations} if away else set[tuple[str, str]]()
        wishes = [wish for wish in known if wish.hostname in nodes or (wish.key, wish.hostname) in backed]
        wishes += [self._names.wish(runs[one], "") for gang in self._held for one in gang.tasks]
        found = difference(wishes, self._usable(view.held))
        failed += await self._overdue(found, runs)
        await self._place(call, found, runs.values(), failed)
        await self._send(found, runs, pools)
        leaving = await self._preempt(call, found, placed, nodes, self._awaited(view))
        metrics.measure(len(self._held), len(placed), view.held, found)
        metrics.turn_over(self._clock_s() - began_s)
        self._is_level = found.is_level
        settled = found.is_level and not (self._held or found.unbacked or leaving or self._unreported)
        self._settled = (view.content, self._listing.changes) if settled else None
        if not self._is_level:
            await asyncio.sleep(self._refresh_s)

    def _no_listing(self) -> Listing:
        return Listing(host_of, lambda run: self._names.wish(run, run.hostname))

    async def _list(self, call: Caller) -> None:
        """Bring the listing up to date."""
        request = hosts_pb2.ListSharedRequest(name=self._partition.full_name, since_ms=self._listing.since_ms)
        answer = await call("ListShared", request)
        try:
            self._listing.add(answer, is_all=not request.since_ms)
        except Outdated:
            request.since_ms = 0
            self._listing.add(await call("ListShared", request), is_all=True)

    def _check(self, shared: log_pb2.SharedHosts) -> None:
        """Raises Followed, Behind."""
        if shared.epoch > self._epoch:
            raise Followed(f"engine {shared.epoch} places on hosts of {self._partition.full_name} now")
        if (shared.epoch, shared.placed) != (self._epoch, self._number):
            raise Behind(f"placements up to {shared.placed} are known, expected {self._number}")

    async def _take_gangs(self, call: Caller) -> None:
        wait_s = self._refresh_s if self._held else limits.DEQUEUE_WITHIN_S
        if sum(len(gang.tasks) for gang in self._held) >= limits.HELD_TASKS:
            await asyncio.sleep(wait_s)
            return
        request = pb.DequeueGangsRequest(limit=limits.GANGS_PER_TURN, timeout=int(wait_s * 1_000), type=self._type)  # type: ignore[arg-type]
        for gang in (await call("DequeueGangs", request)).gangs:
            most_s = min((one.placementTimeoutSeconds or math.inf for one in gang.tasks), default=math.inf)
            self._held.append(HeldGang(gang.tasks, self._clock_s() + min(self._hold_s, most_s)))

    def _usable(self, held: Held) -> Held:
        """Allocations that were given back are not used again, even if the core has not read it."""
        self._given_back &= {one.uuid for one in held.allocations}
        if not self._given_back:
            return held
        kept = (replace(one, releasing=one.releasing or one.uuid in self._given_back) for one in held.allocations)
        return replace(held, allocations=tuple(kept))

    async def _share(self, call: Caller, view: View, *, takes_over: bool = False) -> None:
        """Describe hosts that differ from the nodes. A host whose node is gone drains until no run is there. One whose
        node is awaited stays as it was."""
        if self._nodes[0] is not view.nodes:
            hosts = (host_of_node(node, self._ports) for node in view.nodes)
            self._nodes = view.nodes, {host.hostname: host for host in hosts}
        wanted, known, shared = dict(self._nodes[1]), self._listing.hosts, self._listing.shared
        used = self._listing.used_hosts
        request = hosts_pb2.ShareHostsRequest(
            name=self._partition.full_name, epoch=self._epoch, capacity=view.capacity, slack_cpu=view.slack_cpu,
            takes_over=takes_over,
        )  # fmt: skip
        awaited = self._awaited(view)
        for name, host in known.items():
            if name in awaited:
                continue
            if name not in wanted and name in used:
                wanted[name] = Host(name, host.capacity, draining=True, shared_with=host.shared_with)
            elif name not in wanted:
                request.removed_hostnames.append(name)
        for name, host in wanted.items():
            if known.get(name) is None or _differs(known[name], host):
                message = _write_host(host)
                message.shared_with = ""
                request.hosts.append(message)
        same = (list(shared.capacity), shared.slack_cpu) == (list(view.capacity), view.slack_cpu)
        if same and not request.hosts and not request.removed_hostnames and not takes_over:
            return
        answer = await call("ShareHosts", request)
        if answer.refused:
            raise Followed(answer.refused)
        if foreign := list(answer.foreign_hostnames):
            log.warning("hosts are not shared: a host manager describes them", hosts=foreign[:20])

    def _awaited(self, view: View) -> set[str]:
        """Hosts that the RM has not reported since it has registered. The core keeps the allocations there."""
        now_s = self._clock_s()
        missing = {one.node for one in view.held.allocations} - {str(node["id"]) for node in view.nodes}
        self._unreported = {name: self._unreported.get(name, now_s) for name in missing}
        return {name for name, since_s in self._unreported.items() if now_s - since_s < self._hold_s}

    def _hopeless(self, runs: Mapping[str, Any], pools: Mapping[str, Any], view: View) -> list[Failed]:
        """Gangs that are never placed there. They are no longer held."""
        failed: list[Failed] = []
        self._held = [gang for gang in self._held if gang.tasks]
        for gang in list(self._held):
            if why := why_never(self._names, gang, runs, pools, view.nodes, self._ports):
                self._held.remove(gang)
                failed.append(Failed(gang, why, metrics.NEVER))
        return failed

    async def _overdue(self, found: Difference, runs: Mapping[str, Any]) -> list[Failed]:
        """Gangs whose time is over, each with the core's reason. The next turn gives back what they have."""
        failed: list[Failed] = []
        for gang in list(self._held):
            missing = [one for one in gang.tasks if key_of(self._names.cluster, one) not in found.nodes]
            if gang.until_s > self._clock_s() or (not missing and not gang.reason):
                continue
            self._held.remove(gang)
            why = gang.reason
            if missing:
                application = application_of(self._names.cluster, runs[missing[0]].pool_id)
                why = await self._partition.why(application, key_of(self._names.cluster, missing[0])) or why
            why = why or f"{self._partition.full_name} has not decided within {self._hold_s:g} s"
            failed.append(Failed(gang, why, metrics.NOT_ALLOCATED if missing else metrics.REFUSED))
        return failed

    async def _place(self, call: Caller, found: Difference, runs: Any, failed: list[Failed]) -> None:
        """Place the gangs that are allocated as a whole, and report those that have failed."""
        free = FreePorts(self._ports, runs)
        ready: list[HeldGang] = []
        request = hosts_pb2.PlaceSharedRequest(name=self._partition.full_name, epoch=self._epoch)
        for gang in self._held:
            nodes = {one: found.nodes.get(key_of(self._names.cluster, one), "") for one in gang.tasks}
            if not all(nodes.values()):
                continue
            ready.append(gang)
            for run_id, task in gang.tasks.items():
                ports = free.take(nodes[run_id], task.numPorts)
                request.placements.append(placement(task, nodes[run_id], ports))
            if len(request.placements) >= limits.PLACEMENTS_PER_REQUEST:
                break
        for gang, why, _ in failed:
            tasks = [log_pb2.TaskRun(task_id=one.id.value, run_id=run_id) for run_id, one in gang.tasks.items()]
            request.failed.add(tasks=tasks, reason=why)
        if not request.placements and not request.failed:
            return
        request.number = self._number + 1
        answer = await call("PlaceShared", request)
        self._number += 1
        refused = {task.pelotonTaskID.value: one.message for one in answer.refused for task in one.placement.taskIDs}
        for gang in ready:
            gang.reason = next((refused[one.id.value] for one in gang.tasks.values() if one.id.value in refused), "")
            if not gang.reason:
                self._held.remove(gang)
                metrics.PLACED.inc(len(gang.tasks))
        for one in failed:
            metrics.NOT_PLACED.labels(one.reason).inc()

    async def _send(self, found: Difference, runs: Mapping[str, Any], pools: Mapping[str, Any]) -> None:
        by_id = {application_of(self._names.cluster, pool_id): pool for pool_id, pool in pools.items()}
        new = [self._names.application(by_id[one]) for one in found.submit if one in by_id]
        await self._partition.submit(new)
        await self._partition.ask([ask_of(wish, runs[self._names.run_id(wish.key)]) for wish in found.ask])
        self._given_back.update(one.uuid for one in found.release)
        await self._partition.give_back(found.withdraw, found.release, "no task of Peloton needs it")
        metrics.RELEASED.inc(len(found.release))

    async def _preempt(
        self, call: Caller, found: Difference, placed: Collection[Any], nodes: Mapping[str, Any], awaited: Set[str]
    ) -> bool:
        """Runs that the core wants to end, those that got no allocation in time, and those on nodes that drain. Whether
        there are any: they are asked for again until they have ended."""
        now_s = self._clock_s()
        self._unbacked = {key: self._unbacked.get(key, now_s) for key in found.unbacked}
        keys = {*found.preempt, *(key for key, since_s in self._unbacked.items() if now_s - since_s >= self._hold_s)}
        revoked, maintained = hosts_pb2.PreemptRunsRequest(), hosts_pb2.PreemptRunsRequest(maintenance=True)
        usable = {name for name, node in nodes.items() if node["status"] == "Schedulable"} | awaited
        leaving = False
        for run in placed:
            drains = run.hostname not in usable
            if not drains and not keys:
                continue
            key = key_of(self._names.cluster, run.run_id)
            leaving = leaving or drains or key in keys
            if not (drains or key in keys) or now_s - self._preempted.get(key, -math.inf) < limits.PREEMPT_AGAIN_S:
                continue
            self._preempted[key] = now_s
            (maintained if drains else revoked).runs.add(task_id=run.task_id, run_id=run.run_id)
        for request, cause in ((revoked, metrics.REVOKED), (maintained, metrics.MAINTENANCE)):
            if request.runs:
                await call("PreemptRuns", request)
                metrics.PREEMPTED.labels(cause).inc(len(request.runs))
        if self._preempted:
            there = {key_of(self._names.cluster, run.run_id) for run in placed}
            self._preempted = {key: at_s for key, at_s in self._preempted.items() if key in there}
        return leaving


def _differs(known: Host, wanted: Host) -> bool:
    return known != replace(wanted, shared_with=known.shared_with)
