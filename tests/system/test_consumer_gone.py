"""The consumer of an RM is deleted, by an operator or with its stream: the registration is in force, so the consumer is
made again, and the RM gets every callback once. An RM that has really been superseded is told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.nats import NatsBus
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, Superseded, application, ask, node
from tests.patience import PATIENCE
from tests.system.running import QUEUES, around_the_core, running, until

RM = "rm-1"
CALLBACKS = subjects.CALLBACKS.name


@asynccontextmanager
async def system(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with around_the_core(server.url) as bus, running(server.url, "core", core_main, CoreSettings):
        yield bus


@asynccontextmanager
async def asking(server: NatsServer) -> AsyncIterator[tuple[ResourceManager, list[str]]]:
    """An RM with a node and an application, and the keys of what it was allocated, as it grows."""
    allocated: list[str] = []
    async with ResourceManager.connect(server.url, RM, config=QUEUES) as rm:

        async def take() -> None:
            async for callback in rm.callbacks():
                if isinstance(callback, si.AllocationResponse):
                    allocated.extend(one.allocationKey for one in callback.new)

        await rm.report_nodes([node("n1", vcore=100)])
        await rm.submit(application("app-1", queue="root.a", user="u"))
        taking = asyncio.create_task(take())
        try:
            yield rm, allocated
            if taking.done():
                await taking
        finally:
            taking.cancel()
            await asyncio.wait([taking])


async def placed(rm: ResourceManager, allocated: list[str], *keys: str) -> None:
    await rm.ask([ask("app-1", key, vcore=1) for key in keys])

    async def there() -> bool:
        return set(keys) <= set(allocated)

    await until(there, 20)


async def test_a_deleted_consumer_is_made_again(server: NatsServer) -> None:
    async with system(server) as bus, asking(server) as (rm, allocated):
        await placed(rm, allocated, "k1", "k2")
        await bus.delete_consumer(CALLBACKS, subjects.callback_consumer(RM))
        await placed(rm, allocated, "k3", "k4")
        await bus.delete_consumer(CALLBACKS, subjects.callback_consumer(RM))
        await placed(rm, allocated, "k5")
        state = await bus.consumer_state(CALLBACKS, subjects.callback_consumer(RM))
        assert state is not None and state.metadata[subjects.REGISTRATION] == "1"
        assert sorted(allocated) == ["k1", "k2", "k3", "k4", "k5"], "each once"


async def test_a_stream_of_callbacks_that_was_deleted_and_declared_again(server: NatsServer) -> None:
    """Its sequences begin at 1, before those of the record of the RM."""
    async with system(server) as bus:
        async with asking(server) as (rm, allocated):
            await placed(rm, allocated, *(f"k{number}" for number in range(10)))
        async with asking(server) as (rm, allocated):  # this registration begins behind those callbacks
            await placed(rm, allocated, "k1")
            await bus._jetstream.api(f"STREAM.DELETE.{CALLBACKS}")
            await bus.declare()
            await placed(rm, allocated, "k2", "k3")
            assert sorted(allocated) == ["k1", "k2", "k3"], "each once"


async def test_a_consumer_without_the_number_of_its_registration_is_replaced(server: NatsServer) -> None:
    """As a server of an older version writes it."""
    async with system(server) as bus, asking(server) as (rm, allocated):
        await placed(rm, allocated, "k1")
        durable = subjects.callback_consumer(RM)

        async def is_written() -> bool:
            try:
                await bus.create_consumer(CALLBACKS, subjects.callback(RM, "*"), durable, 0, {})
            except Refused:  # rmproxy was faster: it makes a deleted consumer again
                return False
            return True

        await until(is_written, 20)
        await placed(rm, allocated, "k2")
        assert sorted(allocated) == ["k1", "k2"]


async def test_an_rm_that_is_superseded_is_told_by_which_registration(server: NatsServer) -> None:
    async with (
        system(server),
        ResourceManager.connect(server.url, RM, config=QUEUES) as first,
        ResourceManager.connect(server.url, RM, config=QUEUES),
    ):
        await ends(first, "registration 1 of 'rm-1' is over: another instance has registered, as 2")


async def test_an_rm_that_another_instance_has_deregistered_is_told_so(server: NatsServer) -> None:
    async with system(server), ResourceManager.connect(server.url, RM, config=QUEUES) as first:
        async with ResourceManager.connect(server.url, RM, config=QUEUES) as second:
            await second.deregister()
        await ends(first, "another instance has deregistered it")


async def ends(rm: ResourceManager, reason: str) -> None:
    with pytest.raises(Superseded, match=reason):
        async with asyncio.timeout(10 * PATIENCE):
            async for _ in rm.callbacks():
                pass
