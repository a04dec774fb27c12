"""Requests of one RM that must not stop the others: long, deep, many, extreme."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import cast

import pytest

from remuda_bus import subjects
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import application, ask, node

from .ground import Ground

pytestmark = pytest.mark.asyncio(loop_scope="module")

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize("levels", [30_000, 100_000])
async def test_queue_names_of_many_levels(ground: Ground, levels: int) -> None:
    async with ground.attack() as rm:
        await rm.register()
        await rm.submit(application("deep", queue="root" + ".level" * levels, user="ann"))


@pytest.mark.parametrize(
    "user", ["\x01" * 2_500_000, "!" * 4_200_000, "'\\" * 1_000_000], ids=["control", "punctuation", "quotes"]
)
async def test_user_names_that_a_refusal_would_repeat(ground: Ground, user: str) -> None:
    async with ground.attack() as rm:
        await rm.register()
        await rm.submit(application("long", queue="root.a", user=user))


async def test_a_pattern_that_never_comes_back(ground: Ground) -> None:
    config = """
partitions:
- name: default
  placementrules:
  - {name: user, create: true, filter: {type: allow, users: ["(a|a)+b"]}}
  queues: [{name: root, submitacl: '*'}]
"""
    async with ground.attack() as rm:
        await rm.register(config)
        await rm.submit(application("slow", user="a" * 40))


async def test_a_resource_name_of_its_own_for_each_node(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register()
        await rm.nodes(*(node(f"n{number}", resources={f"r{number}": 1}) for number in range(20_000)))
        await rm.submit(application("app", queue="root.a", user="ann"))
        await rm.asks(*(ask("app", f"k{number}", resources={f"r{number}": 1}) for number in range(1_000)))


async def test_nodes_that_all_differ_in_many_resources(ground: Ground) -> None:
    """It takes long to build their index, and to search it: for each new name, and each size of an ask that fits
    nowhere."""

    def wide(number: int) -> si.NodeInfo:
        amounts = {f"r{place}": 1_000 + (number * (place + 7)) % 977 for place in range(29)}
        return node(f"n{number:05}", resources={**amounts, "own": number})

    async with ground.attack() as rm:
        await rm.register()
        await rm.submit(application("app", queue="root.a", user="ann"))
        for first in range(0, 20_000, 500):
            await rm.nodes(*(wide(number) for number in range(first, first + 500)))
        await rm.asks(*(ask("app", f"k{number}", resources={"r1": 10_000 + number}) for number in range(1_000)))
        for number in range(3):
            await rm.nodes(node(f"late-{number}", resources={f"late-{number}": 1}))
            await asyncio.sleep(1)
        await asyncio.sleep(3)


async def test_releases_without_an_application(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register()
        for first in range(0, 5_000, 1_000):
            await rm.submit(*(application(f"app-{n}", queue="root.a", user="ann") for n in range(first, first + 1_000)))
            await rm.asks(*(ask(f"app-{n}", "k", vcore=1) for n in range(first, first + 1_000)))
        asks = [si.AllocationAskRelease(allocationKey=f"no-{number}") for number in range(1_000)]
        allocations = [si.AllocationRelease(UUID=f"no-{number}") for number in range(1_000)]
        releases = si.AllocationReleasesRequest(allocationAsksToRelease=asks, allocationsToRelease=allocations)
        await rm.send("allocation", si.AllocationRequest(rmID=rm.rm_id, releases=releases))


async def test_more_allocations_than_anybody_can_hold(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register()
        await rm.nodes(node("huge", memory=2**62))
        await rm.submit(application("app", queue="root.a", user="ann"))
        await rm.asks(*(ask("app", f"k{number}", count=INT32_MAX, memory=1) for number in range(3)))
        await asyncio.sleep(4)


async def test_large_configurations(ground: Ground) -> None:
    partitions = "\n".join(f"- {{name: p{number}, queues: [{{name: a}}]}}" for number in range(20_000))
    async with ground.attack() as rm:
        await rm.register()
        for _ in range(5):
            await rm.configure(f"partitions:\n{partitions}\n")


async def test_many_broken_configurations(ground: Ground) -> None:
    async with ground.attack() as rm:
        await rm.register()
        for number in range(200):
            await rm.configure(f"partitions: [{{name: default, queues: [{{name: a{number}, limits: [1, 2]}}]}}]")


async def test_extreme_numbers(ground: Ground) -> None:
    """Its snapshots can be written and read again, and its story can be read."""
    async with ground.attack() as rm:
        await rm.register()
        negative = node("n2", vcore=1)
        negative.schedulableResource.resources["vcore"].value = -INT64_MAX  # the SDK builds none
        await rm.nodes(node("n1", vcore=INT64_MAX), negative)
        forever = application("forever", queue="root.a", user="ann")
        forever.executionTimeoutMilliSeconds = INT64_MAX
        forever.placeholderAsk.resources["vcore"].value = INT64_MAX
        await rm.submit(forever, application("app", queue="root.a", user="ann"))
        await rm.asks(
            ask("app", "late", vcore=1, timeout_ms=INT64_MAX), ask("app", "first", vcore=INT64_MAX, priority=INT32_MAX)
        )
        for kind in cast(list[si.TerminationType.ValueType], [9, -1, INT32_MAX]):
            releases = si.AllocationReleasesRequest(
                allocationsToRelease=[si.AllocationRelease(applicationID="app", UUID="no", terminationType=kind)],
                allocationAsksToRelease=[si.AllocationAskRelease(applicationID="app", terminationType=kind)],
            )
            await rm.send("allocation", si.AllocationRequest(rmID=rm.rm_id, releases=releases))
        await rm.asks(*(ask("app", f"k{number}", vcore=1) for number in range(1_000)))
        await asyncio.sleep(2)
    assert any(
        name.startswith(f"{rm.rm_id}.") for name in await ground.system.bus.object_names(subjects.SNAPSHOTS.name)
    )
    for what in ("app", "no"):  # of this RM alone: the logs of the attacks before are long
        told = await asyncio.to_thread(remuda, "story", what, "--rm", rm.rm_id, "--nats", ground.url)
        assert told.returncode == 0 and "Traceback" not in told.stderr, told.stderr[-500:]
    assert "Traceback" not in (await asyncio.to_thread(remuda, "status", "--nats", ground.url)).stderr


def remuda(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "remuda", *arguments], capture_output=True, text=True, check=False)


async def test_one_pass_over_many_partitions(ground: Ground) -> None:
    """Each RM has thousands of asks that fit at the same time."""
    partitions = [f"p{number}" for number in range(30)]
    config = "\n".join(f"- {{name: {name}, queues: [{{name: a, submitacl: '*'}}]}}" for name in partitions)
    async with ground.attack() as rm:
        await rm.register(f"partitions:\n{config}\n")
        for name in partitions:
            await rm.nodes(node(f"n-{name}", partition=name, vcore=1_000_000))
            await rm.submit(application("app", queue="root.a", user="ann", partition=name))
        for name in partitions:
            await rm.asks(*(ask("app", f"k{number}", count=1_000, partition=name, vcore=1) for number in range(20)))


async def test_large_registrations(ground: Ground) -> None:
    async with ground.attack() as rm:
        for request in (
            si.RegisterResourceManagerRequest(rmID=rm.rm_id, version="v" * 2_000_000),
            si.RegisterResourceManagerRequest(rmID=rm.rm_id, extraConfig={f"k{n}": "v" for n in range(100_000)}),
            si.RegisterResourceManagerRequest(rmID=rm.rm_id, buildInfo={f"k{n}": "v" for n in range(100_000)}),
            si.RegisterResourceManagerRequest(rmID=rm.rm_id, policyGroup="g" * 2_000_000),
        ):
            await rm.ask(subjects.register(rm.rm_id), request.SerializeToString())
        kept = await ground.system.bus.get(subjects.RMS.name, rm.rm_id)
        assert kept is None or len(kept.value or b"") < 100_000
