"""Clients that wait for the same things."""

from __future__ import annotations

import asyncio
from typing import Any

from remuda_bus.memory import MemoryBus
from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.rules.task import Task
from remuda_peloton.shell.request_handler import RequestHandler
from remuda_peloton.wire.rpcs import RPCS
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb

WAITING = 4


async def test_only_so_many_take_as_there_is_something_for() -> None:
    """Each that takes is a message of the inbox, and a decision in the log."""
    core, asked = Core(), []
    handler = RequestHandler(MemoryBus(), "peloton.test", core, lambda: True)
    kinds = tuple(KindConfig(kind, 0.0, 100.0) for kind in KINDS)
    for command in (
        commands.SetCapacity((100.0, 100.0, 100.0, 100.0)),
        commands.CreatePool(PoolConfig("p", "p", resources=kinds)),
    ):
        core.handle(command, 1)

    async def decided(name: str, request: bytes) -> bytes:
        asked.append(name)
        await asyncio.sleep(0)
        _, answer = core.handle(commands.DequeueGangs(pb.DequeueGangsRequest.FromString(request).limit), 2)
        return RPCS[name].answer(pb.DequeueGangsRequest(), answer).SerializeToString()  # type: ignore[misc]

    def news(*task_ids: str) -> None:
        gangs = tuple((Task(one, f"{one}-1", preemptible=True),) for one in task_ids)
        core.handle(commands.EnqueueGangs("p", gangs), 1)
        core.handle(commands.Admit(), 1)
        handler.applied(_NO_DECISIONS)

    handler._decided = decided  # type: ignore[method-assign]
    news("z")
    at_once = pb.DequeueGangsRequest(limit=1)
    found = [await handler.answer("DequeueGangs", RPCS["DequeueGangs"], at_once) for _ in range(2)]
    assert found[0] and not found[1], "what is there is found without waiting"
    asked.clear()
    request = pb.DequeueGangsRequest(limit=1, timeout=5_000)
    waiting = [
        asyncio.create_task(handler.answer("DequeueGangs", RPCS["DequeueGangs"], request)) for _ in range(WAITING)
    ]
    await asyncio.sleep(0)
    news("a")
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(asked) == 1 and sum(one.done() for one in waiting) == 1
    news("b", "c", "d")
    assert all(await asyncio.gather(*waiting))
    assert len(asked) == WAITING


class _NoDecisions:
    decisions: tuple[Any, ...] = ()


_NO_DECISIONS = _NoDecisions()
