"""RMs at front ends, on a bus in memory and without gRPC: which callbacks reach which stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from remuda_bus import subjects
from remuda_bus.bus import Full, Message, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_grpc import limits
from remuda_grpc.requests import RequestWriter
from remuda_grpc.sessions import Sessions
from remuda_grpc.status import Failure
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.callbacks import NOWHERE

RM = "rm:1"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDOVER_S", 0.05)
    monkeypatch.setattr(limits, "CONFIRM_EVERY_S", 0.01)


async def register(bus: MemoryBus, registration: int = 1) -> None:
    record = {"rm_id": RM, "state": "registered", "registration": registration}
    await bus.put(subjects.RMS.name, subjects.key_of(RM), json.dumps(record).encode())
    after = await bus.last_sequence(subjects.CALLBACKS.name)
    await bus.create_consumer(
        subjects.CALLBACKS.name, subjects.callback(RM, "*"), subjects.callback_consumer(RM), after,
        {subjects.REGISTRATION: str(registration)},
    )  # fmt: skip


async def publish(bus: MemoryBus, kind: str, *numbers: int) -> None:
    for number in numbers:
        headers = {subjects.LOG_SEQ: str(number), subjects.LOG_FACT: "0"}
        await bus.append(subjects.callback(RM, kind), b"%d" % number, headers)


@asynccontextmanager
async def front_end(bus: MemoryBus, name: str = "grpc-1") -> AsyncIterator[Sessions]:
    sessions = Sessions(bus, name)
    watching = asyncio.create_task(sessions.run())
    yield sessions
    watching.cancel()
    await sessions.close()


async def heard(stream, count: int) -> list[int]:
    async with asyncio.timeout(5):
        return [int((await stream.next()).payload) for _ in range(count)]


async def failure(awaited) -> Failure:
    with pytest.raises(Failure) as found:
        async with asyncio.timeout(5):
            await awaited
    return found.value


async def until(holds) -> None:
    async with asyncio.timeout(5):
        while not await holds():  # noqa: ASYNC110 - the bus does not say when a message is acknowledged
            await asyncio.sleep(0.01)


async def until_claimed(bus: MemoryBus, instance: str) -> None:
    async def claimed() -> bool:
        entry = await bus.get(subjects.FRONT_ENDS.name, subjects.key_of(RM))
        return entry is not None and json.loads(entry.value or b"{}").get("instance") == instance

    await until(claimed)


async def acknowledged(bus: MemoryBus) -> int:
    return await bus.acknowledged_sequence(subjects.CALLBACKS.name, subjects.callback_consumer(RM))


@pytest.fixture
async def bus() -> MemoryBus:
    made = MemoryBus()
    await made.declare()
    await register(made)
    return made


async def test_each_kind_has_its_stream_and_keeps_its_order(bus):
    async with front_end(bus) as sessions:
        nodes = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        await publish(bus, "allocation", 1)
        await publish(bus, "node", 2, 3)
        assert await heard(nodes, 2) == [2, 3]
        allocations = await sessions.open(RM, "allocation", "peer", 0, NOWHERE)
        await publish(bus, "allocation", 4)
        assert await heard(allocations, 2) == [1, 4]


async def test_callbacks_that_no_stream_carries_are_confirmed(bus):
    async with front_end(bus) as sessions:
        await sessions.open(RM, "node", "peer", 0, NOWHERE)
        await publish(bus, "container", 1)
        await publish(bus, "dead_letter", 2)

        async def confirmed() -> bool:
            return await acknowledged(bus) == 2

        await until(confirmed)


async def test_callback_is_confirmed_when_its_stream_lives_on(bus, monkeypatch):
    monkeypatch.setattr(limits, "CONFIRM_AFTER_S", 0.05)
    async with front_end(bus) as sessions:
        nodes = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        await publish(bus, "node", 1, 2)
        assert await heard(nodes, 1) == [1]
        waiting = asyncio.create_task(nodes.next())  # the caller has sent the first, and sends the second

        async def confirmed() -> bool:
            return await acknowledged(bus) == 1

        await until(confirmed)
        assert (await waiting).payload == b"2"
        await nodes.close()
        again = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        assert await heard(again, 1) == [2], "it was being sent"


async def test_stream_that_ends_leaves_its_callbacks_to_the_next(bus):
    async with front_end(bus) as sessions:
        other = await sessions.open(RM, "application", "peer", 0, NOWHERE)
        nodes = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        await publish(bus, "node", 1, 2, 3)
        assert await heard(nodes, 2) == [1, 2]
        await nodes.close()
        nodes = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        assert await heard(nodes, 3) == [1, 2, 3]
        await nodes.close()
        await other.close()

        async def closed() -> bool:
            return len(sessions) == 0

        await until(closed)
        assert (await bus.get(subjects.FRONT_ENDS.name, subjects.key_of(RM))) is None
        nodes = await sessions.open(RM, "node", "peer", 0, (2, 5))
        assert await heard(nodes, 1) == [3]


async def test_front_end_that_claims_an_rm_last_has_it(bus):
    async with front_end(bus) as first, front_end(bus, "grpc-2") as second:
        here = await first.open(RM, "node", "peer", 0, NOWHERE)
        await publish(bus, "node", 1)
        assert await heard(here, 1) == [1]
        there = await second.open(RM, "node", "peer", 0, NOWHERE)
        assert (await failure(here.next())).code == grpc.StatusCode.ABORTED
        assert await heard(there, 1) == [1]
        assert len(first) == 0
        back = await first.open(RM, "node", "peer", 0, NOWHERE)
        assert (await failure(there.next())).code == grpc.StatusCode.ABORTED
        assert await heard(back, 1) == [1]


async def test_claim_that_is_lost_while_an_rm_is_handed_over(bus, monkeypatch):
    monkeypatch.setattr(limits, "HANDOVER_S", 0.2)
    async with front_end(bus) as first, front_end(bus, "grpc-2") as second, front_end(bus, "grpc-3") as third:
        await first.open(RM, "node", "peer", 0, NOWHERE)
        opening = asyncio.create_task(second.open(RM, "node", "peer", 0, NOWHERE))
        await until_claimed(bus, "grpc-2")
        stream = await third.open(RM, "node", "peer", 0, NOWHERE)
        assert (await failure(opening)).code == grpc.StatusCode.ABORTED
        assert (len(first), len(second), len(third)) == (0, 0, 1)
        await publish(bus, "node", 1)
        assert await heard(stream, 1) == [1]


async def test_claim_that_is_lost_before_its_answer_arrives(bus, monkeypatch):
    """The watch has shown the later claim by then, when this front end did not know its own yet."""
    put = bus.put

    async def overtaken(bucket, key, value):
        revision = await put(bucket, key, value)
        await put(bucket, key, json.dumps({"instance": "grpc-2", "token": "other"}).encode())
        await asyncio.sleep(0.01)
        return revision

    async with front_end(bus) as first:
        monkeypatch.setattr(bus, "put", overtaken)
        assert (await failure(first.open(RM, "node", "peer", 0, NOWHERE))).code == grpc.StatusCode.ABORTED
        assert len(first) == 0


async def test_rm_that_has_to_report_loses_its_streams(bus):
    async with front_end(bus) as first:
        stream = await first.open(RM, "node", "peer", 0, NOWHERE)
        record = {"rm_id": RM, "state": "report_wanted", "registration": 1}
        await bus.put(subjects.RMS.name, subjects.key_of(RM), json.dumps(record).encode())
        for ended in (stream.next(), first.open(RM, "node", "peer", 0, NOWHERE)):
            failed = await failure(ended)
            assert (failed.code, failed.name) == (grpc.StatusCode.FAILED_PRECONDITION, "REPORT_REQUESTED")
        await register(bus, 2)
        await first.open(RM, "node", "peer", 2, NOWHERE)


async def test_rms_that_do_not_exist_cost_no_memory(bus):
    async with front_end(bus) as sessions:
        for number in range(100):
            await failure(sessions.open(f"rm-{number}", "node", "peer", 0, NOWHERE))
        assert not list(sessions._locks)


async def test_newer_stream_of_a_kind_ends_the_older(bus):
    async with front_end(bus) as sessions:
        older = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        newer = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        assert (await failure(older.next())).code == grpc.StatusCode.ABORTED
        await older.close()
        await publish(bus, "node", 1)
        assert await heard(newer, 1) == [1]


async def test_registration_elsewhere_ends_the_streams(bus):
    async with front_end(bus) as sessions:
        nodes = await sessions.open(RM, "node", "peer", 1, NOWHERE)
        await publish(bus, "node", 1)
        assert await heard(nodes, 1) == [1]
        await bus.delete_consumer(subjects.CALLBACKS.name, subjects.callback_consumer(RM))
        await register(bus, 2)
        assert (await failure(nodes.next())).code == grpc.StatusCode.ABORTED
        assert (await failure(sessions.open(RM, "node", "peer", 1, NOWHERE))).code == grpc.StatusCode.ABORTED
        await nodes.close()
        nodes = await sessions.open(RM, "node", "peer", 2, NOWHERE)
        await publish(bus, "node", 7)
        assert await heard(nodes, 1) == [7]


async def test_a_consumer_that_was_deleted_is_made_again(bus, monkeypatch):
    """rmproxy makes one from the first callback of the registration on. Confirmed callbacks are not sent again."""
    monkeypatch.setattr(limits, "CONFIRM_AFTER_S", 0.02)
    stream, durable = subjects.CALLBACKS.name, subjects.callback_consumer(RM)

    async def resumes(message: Message) -> bytes:
        assert message.payload == b"" and subjects.RESUME in message.headers
        await bus.create_consumer(stream, subjects.callback(RM, "*"), durable, 0, {subjects.REGISTRATION: "1"})
        return b""

    await bus.serve(subjects.register(RM), resumes, "register")
    async with front_end(bus) as sessions:
        nodes = await sessions.open(RM, "node", "peer", 1, NOWHERE)
        await publish(bus, "node", 1, 2)
        assert await heard(nodes, 2) == [1, 2]
        waiting = asyncio.create_task(heard(nodes, 1))

        async def confirmed() -> bool:
            state = await bus.consumer_state(stream, durable)
            return state is not None and state.waiting == 0

        await until(confirmed)
        await bus.delete_consumer(stream, durable)
        await publish(bus, "node", 3)
        assert await waiting == [3]
        await publish(bus, "node", 4)
        assert await heard(nodes, 1) == [4]


async def test_rm_that_is_not_registered_has_no_streams():
    bus = MemoryBus()
    await bus.declare()
    async with front_end(bus) as sessions:
        found = await failure(sessions.open(RM, "node", "peer", 0, NOWHERE))
    assert found.code == grpc.StatusCode.FAILED_PRECONDITION


async def test_no_more_callbacks_are_held_than_the_bound(bus, monkeypatch):
    monkeypatch.setattr(limits, "UNCONFIRMED_MESSAGES", 10)
    monkeypatch.setattr(limits, "BATCH_MESSAGES", 5)
    monkeypatch.setattr(limits, "CONFIRM_AFTER_S", 0.02)
    async with front_end(bus) as sessions:
        nodes = await sessions.open(RM, "node", "peer", 0, NOWHERE)
        await publish(bus, "node", *range(1, 101))
        await asyncio.sleep(0.1)
        assert nodes._session._held_messages <= 15
        assert await heard(nodes, 100) == list(range(1, 101)), "what is confirmed makes room"


# Requests


async def stored(bus: MemoryBus, kind: str) -> list[si.NodeRequest]:
    reader = await bus.read(subjects.REQUESTS.name, subjects.request(RM, kind))
    return [si.NodeRequest.FromString(message.payload) for message in await reader.batch(10_000, timeout_s=0.1)]


def node_request(*names: str, rm_id: str = "") -> bytes:
    return si.NodeRequest(rmID=rm_id, nodes=[si.NodeInfo(nodeID=name) for name in names]).SerializeToString()


async def test_requests_are_stored_in_order_with_the_name_of_their_rm(bus):
    async with front_end(bus) as sessions:
        writer = RequestWriter(bus, RM, "node", await sessions.open(RM, "node", "peer", 0, NOWHERE), {})
        running = asyncio.create_task(writer.run())
        for number in range(2_500):
            await writer.add(node_request(str(number)))
        await writer.end()
        await running
    found = await stored(bus, "node")
    assert [one.nodes[0].nodeID for one in found] == [str(number) for number in range(2_500)]
    assert {one.rmID for one in found} == {RM}


async def test_request_that_is_larger_than_the_bus_takes_is_split(bus):
    bus = MemoryBus(max_payload=20_000)
    await bus.declare()
    await register(bus)
    async with front_end(bus) as sessions:
        writer = RequestWriter(bus, RM, "node", await sessions.open(RM, "node", "peer", 0, NOWHERE), {})
        await writer.add(node_request(*(f"{number:0100}" for number in range(500))))
        await writer.end()
        await writer.run()
        assert writer.stored == 1
        assert sum(len(one.nodes) for one in await stored(bus, "node")) == 500
        found = await failure(writer.add(node_request("x" * 30_000)))
    assert found.code == grpc.StatusCode.INVALID_ARGUMENT
    assert "NodeRequest.nodes[0]" in found.reason


@pytest.mark.parametrize(
    ("error", "code"),
    [(Full("full"), grpc.StatusCode.RESOURCE_EXHAUSTED), (Unanswered("away"), grpc.StatusCode.UNAVAILABLE)],
)
async def test_bus_that_takes_nothing_ends_the_stream(bus, monkeypatch, error, code):
    monkeypatch.setattr(limits, "STORE_FOR_S", 0.05)

    async def refuse(*_: object, **__: object) -> int:
        raise error

    async with front_end(bus) as sessions:
        writer = RequestWriter(bus, RM, "node", await sessions.open(RM, "node", "peer", 0, NOWHERE), {})
        monkeypatch.setattr(bus, "append_all", refuse)
        await writer.add(node_request("n1"))
        assert (await failure(writer.run())).code == code
    assert writer.stored == 0


async def test_client_that_sends_faster_than_requests_are_stored_waits(bus, monkeypatch):
    monkeypatch.setattr(limits, "UNSTORED_REQUESTS", 3)
    async with front_end(bus) as sessions:
        writer = RequestWriter(bus, RM, "node", await sessions.open(RM, "node", "peer", 0, NOWHERE), {})
        for number in range(3):
            await writer.add(node_request(f"n{number}"))
        waiting = asyncio.create_task(writer.add(node_request("n3")))
        await asyncio.sleep(0)
        assert not waiting.done()
        running = asyncio.create_task(writer.run())
        async with asyncio.timeout(5):
            await waiting
            await writer.end()
            await running
    assert writer.stored == 4
