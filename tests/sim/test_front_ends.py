"""RMs over gRPC, whose front ends are killed at any step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from remuda_proto.si.v1 import si_pb2 as si

from .front_ends import OverGrpc, run

# 18: an RM registers again while it confirms a release.
# 159: an RM is killed that has not processed its callbacks for longer than front ends wait.
SEEDS = (*range(6), 18, 159)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled_by_front_ends(seed: int) -> None:
    story = run(seed)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, f"{said}\nall of it: python -m tests.sim --front-ends --seed {seed}"
    assert any(" is killed" in line for line in story.lines) or seed, "the first seed kills something"


class Scheduler:
    """It knows no RM while one registers, which takes until `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.knows = False
        self.requests: list[object] = []

    async def register_resource_manager(self, *_: object) -> None:
        self.knows = False
        await self.go.wait()
        self.knows = True

    async def update_allocation(self, request: object) -> None:
        assert self.knows
        self.requests.append(request)


async def test_a_request_waits_for_a_registration_that_follows_another_at_once() -> None:
    scheduler: Any = Scheduler()
    rm: Any = SimpleNamespace(cluster=SimpleNamespace(rm_id="rm-1"), CONFIGURATION="", behind=False)
    over_grpc = OverGrpc(scheduler, rm)

    async def register_twice() -> None:
        await over_grpc.register("replay")  # wakes the request, which runs when this task waits
        scheduler.go.clear()
        await over_grpc.register("report")

    releasing = asyncio.ensure_future(over_grpc.release([si.AllocationRelease(UUID="u")]))
    await asyncio.sleep(0)
    scheduler.go.set()
    registering = asyncio.ensure_future(register_twice())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not releasing.done() and not scheduler.requests
    scheduler.go.set()
    await asyncio.gather(registering, releasing)
    assert len(scheduler.requests) == 1
