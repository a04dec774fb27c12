"""An RM of si.v1 and a job manager of Peloton on the same nodes and one quota, while processes are killed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from integrations.peloton.tests.test_server import url
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_peloton.wire.guests import key_of
from remuda_proto.guests import is_guest
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import log_pb2 as peloton_log
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import DeadLetter, application, ask
from tests.system.running import until
from tests.system.side_by_side import (
    MAX,
    PELOTON,
    RM,
    TASKS,
    WITHIN_S,
    JobManager,
    Use,
    audit,
    commits,
    deployment,
    nothing_is_held,
    query,
    rm_of,
    runs_on_hosts,
)

__all__ = ["url"]


@pytest.mark.timeout(200)
async def test_both_share_room_and_quota_while_processes_are_killed(url: str, tmp_path: Path) -> None:
    async with deployment(url, tmp_path) as deployed, asyncio.timeout(WITHIN_S + 60), rm_of(url) as rm:
        manager = JobManager(deployed.bus)
        await rm.begin()
        await manager.begin()
        await manager.enqueue(range(TASKS))
        work = asyncio.create_task(until_finished(manager))
        keys = [f"k{number}" for number in range(40)]
        for number, victim in enumerate(("placement", "core", "resmgr", "rmproxy", "placement")):
            await rm.ask(*keys[8 * number : 8 * number + 8])
            await asyncio.sleep(1.5)
            deployed.restart(victim)
            await asyncio.sleep(1.5)
        await work
        await rm.allocated(*keys)
        await nothing_is_held(deployed, manager)
        assert not rm.sees_guests()
        uses, most = await audit(deployed.bus)
        assert most == MAX  # the quota was used, and it was what bounded
        by_key: dict[str, list[Use]] = defaultdict(list)
        for use in uses:
            by_key[use.key].append(use)
        stays = await runs_on_hosts(deployed.bus)
        assert len(stays) >= TASKS
        for run_id, host, from_ms, until_ms in stays:  # a run is on a host only while the RM's core keeps room for it
            found = [one for one in by_key[key_of("default", run_id)] if one.node == host]
            assert any(one.from_ms <= from_ms and until_ms <= one.until_ms for one in found), (run_id, found)


async def until_finished(manager: JobManager) -> None:
    """Launch what is placed, and end it; each task once."""
    while len(manager.finished) < TASKS:
        answer = await manager.call("GetPlacements", pb.GetPlacementsRequest(limit=10, timeout=300))
        for run_id in (one.mesosTaskID.value for where in answer.placements for one in where.taskIDs):
            if run_id not in manager.finished:
                await manager._tell(run_id, "TASK_RUNNING")
                await asyncio.sleep(0.2)
                await manager._tell(run_id, "TASK_FINISHED")
                manager.finished[run_id] += 1


@pytest.mark.timeout(120)
async def test_what_the_core_takes_back_is_preempted(url: str, tmp_path: Path) -> None:
    """The queue of the RM is below its guarantee: runs of Peloton are preempted, and go before its asks are placed."""
    async with deployment(url, tmp_path) as deployed, asyncio.timeout(60), rm_of(url) as rm:
        manager = JobManager(deployed.bus)
        rm.lasts = True
        await rm.begin(nodes=1)
        await manager.begin(nodes=1)
        await manager.enqueue(range(4))
        runs = await manager.placed(4)
        for run_id, host in runs:
            assert host == "n0"
            await manager._tell(run_id, "TASK_RUNNING")
        await rm.ask("k1", "k2")
        gone: list[str] = []
        while rm.done != {"k1", "k2"}:
            gone += await manager.preempt()
        assert set(gone) < {run_id for run_id, _ in runs} and len(set(gone)) == 2
        assert not rm.sees_guests()
        await audit(deployed.bus)


@pytest.mark.timeout(120)
async def test_a_drained_node_and_a_registration_that_reports(url: str, tmp_path: Path) -> None:
    async with deployment(url, tmp_path) as deployed, asyncio.timeout(60), rm_of(url) as rm:
        manager = JobManager(deployed.bus)
        await rm.begin()
        await manager.begin()
        await manager.enqueue(range(2))
        runs = await manager.placed(2)
        for run_id, _ in runs:
            await manager._tell(run_id, "TASK_RUNNING")
        places = {(key_of("default", run_id), host) for run_id, host in runs}
        before = sorted(use["uuid"] for use in await guests(deployed.bus))
        await rm.rm.register(resync="report")  # guests stay, on nodes that are not reported yet
        kept = await guests(deployed.bus)
        assert {(use["key"], use["node"]) for use in kept} == places
        assert sorted(use["uuid"] for use in kept) == before
        await asyncio.sleep(1.0)  # some turns of the engine, none of which gives anything back
        await rm.begin()
        assert sorted(use["uuid"] for use in await guests(deployed.bus)) == before
        await rm.rm.update_nodes([si.NodeInfo(nodeID=host, action=si.NodeInfo.DRAIN_NODE) for host in ("n0", "n1")])
        gone: list[str] = []
        while len(set(gone)) < 2:
            gone += await manager.preempt()

        async def are_gone() -> bool:
            return not await guests(deployed.bus)

        await until(are_gone, 20)


async def guests(bus: Bus) -> list[dict[str, Any]]:
    try:
        rows = (await query(bus, "allocations"))["allocations"]
    except BusError:
        return []
    return [row for row in rows if is_guest(row["application"])]


@pytest.mark.timeout(120)
async def test_what_does_not_fit_is_reported_with_the_cores_reason(url: str, tmp_path: Path) -> None:
    async with deployment(url, tmp_path) as deployed, asyncio.timeout(60), rm_of(url) as rm:
        manager = JobManager(deployed.bus)
        rm.lasts = True
        await rm.begin(nodes=1)
        await rm.ask("k1", vcore=3_500)
        await rm.allocated("k1")
        await manager.begin(nodes=1)
        await manager.enqueue(range(2))

        async def has_failed() -> bool:
            return any("vcore" in one for one in await reasons(deployed.bus))

        await until(has_failed, 30)
        assert (await query(deployed.bus, "rejections"))["rejections"] == []


async def reasons(bus: Bus) -> list[str]:
    """Why gangs went back, by Peloton's log."""
    facts = [
        fact
        for commit in await commits(bus, subjects.PELOTON_LOG.name, PELOTON, peloton_log.Commit)
        for decision in commit.decisions
        for fact in decision.facts
    ]
    return [one.gang_requeued.reason or one.task_requeued.reason for one in facts]


@pytest.mark.timeout(60)
async def test_an_rm_does_not_use_the_names_of_guests(url: str, tmp_path: Path) -> None:
    async with deployment(url, tmp_path), rm_of(url) as rm:
        await rm.begin()
        await rm.rm.submit(application("@peloton.default.x", queue="root.batch", user="alice"))

        async def is_refused() -> bool:
            reasons = [one.reason for one in rm.callbacks if isinstance(one, DeadLetter)]
            return any(
                "new.applicationID '@peloton.default.x': IDs that begin with @peloton." in one for one in reasons
            )

        await until(is_refused)


@pytest.mark.timeout(90)
async def test_an_engine_touches_nothing_of_the_rm(url: str, tmp_path: Path) -> None:
    """As an attacker with the key of the role placement would."""
    async with deployment(url, tmp_path) as deployed, asyncio.timeout(60), rm_of(url) as rm:
        rm.lasts = True
        await rm.begin(nodes=1)
        await rm.ask("k1")
        await rm.allocated("k1")
        uuid = rm.held["k1"].UUID
        subject = subjects.guest_request("default", RM, "allocation")

        async def send(request: si.AllocationRequest) -> None:
            request.rmID = RM
            await deployed.bus.request(subject, request.SerializeToString(), timeout_s=5)

        def release(application_id: str, key: str = "") -> si.AllocationRequest:
            gone = si.AllocationRelease(applicationID=application_id, UUID=uuid, allocationKey=key)
            return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocationsToRelease=[gone]))

        for request in (
            release("app"),
            release("", "k1"),
            si.AllocationRequest(asks=[ask("app", "k2", vcore=1)]),
            si.AllocationRequest(asks=[ask("@peloton.default.x", "k2", vcore=1)]),
            si.AllocationRequest(allocations=[rm.held["k1"]]),
        ):
            with pytest.raises(Refused, match="expected one that begins with|reports none"):
                await send(request)
        await send(release("@peloton.default.x"))  # a guest has no such allocation
        await rm.ask("k3")  # behind it in the inbox
        await rm.allocated("k3")
        assert [row["uuid"] for row in (await query(deployed.bus, "allocations"))["allocations"]].count(uuid) == 1
        assert not rm.sees_guests()
