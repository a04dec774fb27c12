"""A placement engine: takes gangs from a resource manager, places them, and returns placements or reasons.

It keeps nothing that is not in the resource manager's log. The tasks of an engine that is killed are PLACING until
their time-out, and then ready again. Several engines know of each other only what the resource manager says of hosts:
it refuses a placement for which another one has left no room, and the engine tries again elsewhere.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

from .. import limits
from ..placing import Hosts, HostView, Placed, Wanted, give_back, host_to_reserve, place_gang
from ..wire.host_rpcs import host_of
from ..wire.tasks import labels_of, wanted_of

log = structlog.get_logger()


class Caller(Protocol):
    """Calls an RPC of a resource manager."""

    async def __call__(self, name: str, request: Any) -> Any: ...


class Held:
    """A gang that is to be placed. `until_s`: then it is reported, if there was no room."""

    def __init__(self, gang: Sequence[Wanted], until_s: float) -> None:
        self.gang, self.until_s = gang, until_s


class Engine:
    """A placement engine. `name`: engines of different names begin at different hosts. `refresh_s`: it asks for changes
    of hosts when what it knows is so old. `hold_s`: how long it tries to place a gang before it reports a failure."""

    def __init__(
        self, name: str, task_type: int = 0, refresh_s: float = 0.2, hold_s: float = 10.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._call: Caller = _not_connected
        self._type, self._refresh_s, self._hold_s, self._clock_s = task_type, refresh_s, hold_s, clock_s
        self._hosts = Hosts(zlib.crc32(name.encode()) / 2**32)
        self._held: list[Held] = []
        self._with_tasks = False
        self._since_ms = 0
        self._changed = False  # hosts, since all held gangs were tried
        self._refused = False  # a placement of the last turn: another one is tried without waiting
        self._read_s = self._read_all_s = self._reserved_s = float("-inf")

    async def run(self, call: Caller) -> None:
        """Run until an RPC fails, with its error. The engine tries the gangs that it holds then again when it runs
        again."""
        self.connect_anew()
        while True:
            await self.turn(call)

    def connect_anew(self) -> None:
        """An RPC has failed, or the resource manager is another one: what is known of hosts may be wrong."""
        self._since_ms = 0

    async def turn(self, call: Caller, timeout_s: float = limits.DEQUEUE_WITHIN_S) -> None:
        """Take gangs, waiting for the first, and place them and those that are held."""
        self._call = call
        wait_s = 0.0 if self._refused else min(timeout_s, self._refresh_s) if self._held else timeout_s
        self._refused = False
        request = pb.DequeueGangsRequest(limit=limits.GANGS_PER_TURN, timeout=int(wait_s * 1_000), type=self._type)  # type: ignore[arg-type]
        answer = await call("DequeueGangs", request)
        gangs = [tuple(map(wanted_of, gang.tasks)) for gang in answer.gangs]
        for gang, message in zip(gangs, answer.gangs, strict=True):
            self._hold(gang, self._clock_s() + self._time_for(message))
        if not self._held:
            return
        if not self._with_tasks and any(one.needs_tasks for gang in gangs for one in gang):
            self._with_tasks, self._since_ms = True, 0
        await self._refresh(self._refresh_s)
        now_s, tried = self._clock_s(), len(self._held) - len(gangs)
        if self._changed or any(one.until_s <= now_s for one in self._held[:tried]):
            tried, self._changed = 0, False
        await self._place(tried)
        if now_s - self._reserved_s >= limits.RESERVE_S:
            self._reserved_s = now_s
            await self._reserve()

    async def _reserve(self) -> None:
        """Reserve hosts for tasks that are RESERVED, and have no room yet. Reservations are in the resource manager's
        log: they end with the state of the task, also when this engine is killed."""
        request = hosts_pb2.ReserveHostsRequest()
        for wanted in (wanted for held in self._held for wanted in held.gang if wanted.task.ready_for_host_reservation):
            if self._hosts.reserved(wanted.task.mesos_id) is not None:
                continue
            view = host_to_reserve(self._hosts, wanted)
            if view is not None:
                view.reserved_for = wanted.task.mesos_id  # another task reserves another host
                self._hosts.put(view)
                request.reservations.add(
                    hostname=view.host.hostname, task_id=wanted.task.id, run_id=wanted.task.mesos_id
                )
            if len(request.reservations) >= limits.RESERVATIONS_PER_TURN:
                break
        if not request.reservations:
            return
        answer = await self._call("ReserveHosts", request)
        for one in answer.refused:
            log.info(
                "host not reserved", task=one.reservation.task_id, host=one.reservation.hostname, reason=one.message
            )
            view = self._hosts.by_name[one.reservation.hostname]
            view.reserved_for = ""
            self._hosts.put(view)

    def _time_for(self, gang: pb.Gang) -> float:
        """The time to try to place the gang, in s: not longer than the resource manager waits. A task for which a host
        is to be reserved has all of that time: its failures are not counted."""
        timeout_s = min((one.placementTimeoutSeconds or math.inf for one in gang.tasks), default=math.inf)
        return timeout_s if any(one.readyForHostReservation for one in gang.tasks) else min(self._hold_s, timeout_s)

    async def _place(self, tried: int) -> None:
        """Place the gangs that are held; the first `tried` would find as little room as before."""
        placed: list[list[Placed]] = []
        failed: list[tuple[Sequence[Wanted], str]] = []
        still = self._held[:tried]
        held_tasks = sum(len(one.gang) for one in still)
        now_s = self._clock_s()
        for one in self._held[tried:]:
            found, reason = place_gang(self._hosts, one.gang)
            if found:
                placed.append(found)
            elif one.until_s <= now_s or held_tasks + len(one.gang) > limits.HELD_TASKS:
                failed.append((one.gang, reason))
            else:
                still.append(one)
                held_tasks += len(one.gang)
        refused = await self._set_all(placed, failed) if placed or failed else set()
        self._held = still  # until here, an error leaves everything to be tried again
        if refused:
            until_s = now_s + self._hold_s
            for gang in placed:
                if again := [one.wanted for one in gang if one.wanted.task.id in refused]:
                    self._hold(again, until_s)
            self._refused = True
            self._hosts.begin_elsewhere()
            await self._refresh(0.0)

    def _hold(self, gang: Sequence[Wanted], until_s: float) -> None:
        self._held.append(Held(gang, until_s))

    async def _set_all(self, placed: list[list[Placed]], failed: list[tuple[Sequence[Wanted], str]]) -> set[str]:
        """Returns the tasks whose placements were refused. All placements of a gang are in one request."""
        refused: set[str] = set()
        together: list[Placed] = []
        for gang in placed:
            if together and len(together) + len(gang) > limits.PLACEMENTS_PER_REQUEST:
                refused |= await self._set(together, [])
                together = []
            together += gang
        return refused | await self._set(together, failed)

    async def _set(self, placed: list[Placed], failed: list[tuple[Sequence[Wanted], str]]) -> set[str]:
        """Returns the tasks whose placements were refused."""
        request = pb.SetPlacementsRequest(placements=[_message(one) for one in placed])
        for gang, reason in failed:
            tasks = [_task(one) for one in gang]
            request.failedPlacements.add(reason=reason, gang=pb.Gang(tasks=tasks))
        answer = await self._call("SetPlacements", request)
        by_task = {one.wanted.task.id: one for one in placed}
        refused: set[str] = set()
        for failure in answer.error.failure.failed:
            for task in failure.placement.taskIDs:
                one = by_task[task.pelotonTaskID.value]
                give_back(self._hosts, one)
                refused.add(one.wanted.task.id)
                log.info("placement refused", task=one.wanted.task.id, host=one.hostname, reason=failure.message)
        return refused

    async def _refresh(self, older_s: float) -> None:
        """Read the hosts that have changed, if what is known is older."""
        now_s = self._clock_s()
        if now_s - self._read_s < older_s and self._since_ms:
            return
        if now_s - self._read_all_s >= limits.ALL_HOSTS_S:
            self._since_ms = 0
        answer = await self._list()
        if self._since_ms and answer.count != len(
            self._hosts.by_name.keys() | {one.host.hostname for one in answer.hosts}
        ):
            self._since_ms = 0
            answer = await self._list()
        if not self._since_ms:
            self._hosts.keep_only({use.host.hostname for use in answer.hosts})
            self._read_all_s = now_s
        for use in answer.hosts:
            self._changed |= self._hosts.put(_view(use))
        self._read_s, self._since_ms = now_s, max(1, answer.now_ms)

    async def _list(self) -> Any:
        return await self._call(
            "ListHosts", hosts_pb2.ListHostsRequest(since_ms=self._since_ms, with_tasks=self._with_tasks)
        )


async def _not_connected(name: str, request: Any) -> Any:
    raise RuntimeError(f"{name} before run or turn")


def _view(use: hosts_pb2.HostUse) -> HostView:
    cpu, gpu, memory, disk = use.room
    room = (cpu, gpu, memory, disk, use.slack_cpu_room)
    host = host_of(use.host)
    if host.shared_with:  # its own engine places there
        host = replace(host, draining=True)
    view = HostView(host, room, use.used_ports, use.reserved_for)
    for task in use.tasks:
        view.count(task.job_id, labels_of(task.labels))
    return view


def _message(placed: Placed) -> resmgr_pb2.Placement:
    task = placed.wanted.task
    message = resmgr_pb2.Placement(hostname=placed.hostname, ports=placed.ports, type=task.type)  # type: ignore[arg-type]
    one = message.taskIDs.add(mesosTaskID=mesos.TaskID(value=task.mesos_id))
    one.pelotonTaskID.value = task.id
    return message


def _task(wanted: Wanted) -> resmgr_pb2.Task:
    message = resmgr_pb2.Task(taskId=mesos.TaskID(value=wanted.task.mesos_id))
    message.id.value = wanted.task.id
    return message
