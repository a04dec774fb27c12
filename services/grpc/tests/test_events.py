"""Events of a conversation, on a bus in memory and without gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_grpc import limits
from remuda_grpc.resource_manager import _Conversation
from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si

RM = "rm:1"


class Client:
    """A client that says nothing. Writing to it succeeds, also when it is gone: gRPC is told later. It stands for its
    notices, too."""

    registration = 1

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.hears = asyncio.Event()

    async def send_initial_metadata(self, metadata: Any) -> None:
        pass

    async def read(self) -> bytes:
        return await asyncio.get_running_loop().create_future()

    next = read

    async def write(self, payload: bytes) -> None:
        self.heard.append(rm_pb2.ToResourceManager.FromString(payload).event.message)
        self.hears.set()


async def one_heard_by(client: Client, bus: MemoryBus) -> asyncio.Task[None]:
    """Returns the conversation in which it was heard."""
    conversation = _Conversation(bus, rm_pb2.Hello(rm_id=RM, events=True), client, client)  # type: ignore[arg-type]
    running = asyncio.create_task(conversation.run())
    async with asyncio.timeout(5):
        await client.hears.wait()
    return running


async def end(conversation: asyncio.Task[None]) -> None:
    conversation.cancel()
    await asyncio.wait([conversation])


async def publish(bus: MemoryBus, message: str) -> None:
    record = si.EventRecord(type=si.EventRecord.APP, objectID="app-1", message=message)
    await bus.append(subjects.event(RM), record.SerializeToString())


async def unconfirmed(bus: MemoryBus) -> int:
    state = await bus.consumer_state(subjects.EVENTS.name, subjects.event_consumer(RM))
    assert state is not None
    return state.waiting


@pytest.fixture
async def bus() -> MemoryBus:
    bus = MemoryBus()
    durable = subjects.event_consumer(RM)
    await bus.create_consumer(subjects.EVENTS.name, subjects.event(RM), durable, 0, {})
    return bus


async def test_an_event_that_a_client_may_not_have_heard_comes_again(bus: MemoryBus) -> None:
    await publish(bus, "first")
    await end(await one_heard_by(Client(), bus))
    later = Client()
    await end(await one_heard_by(later, bus))
    assert later.heard == ["first"]


async def test_an_event_is_confirmed_when_the_conversation_lives_on(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONFIRM_AFTER_S", 0.02)
    await publish(bus, "first")
    conversation = await one_heard_by(Client(), bus)
    async with asyncio.timeout(5):
        while await unconfirmed(bus):  # noqa: ASYNC110 - nothing tells a test of an acknowledgement
            await asyncio.sleep(0.01)
    await end(conversation)
    await publish(bus, "second")
    later = Client()
    await end(await one_heard_by(later, bus))
    assert later.heard == ["second"]


async def test_no_more_events_are_taken_than_may_be_unconfirmed(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UNCONFIRMED_MESSAGES", 2)
    monkeypatch.setattr(limits, "BATCH_MESSAGES", 1)
    for number in range(5):
        await publish(bus, str(number))
    client = Client()
    conversation = await one_heard_by(client, bus)
    for _ in range(100):
        await asyncio.sleep(0)
    assert client.heard == ["0", "1"]
    await end(conversation)
