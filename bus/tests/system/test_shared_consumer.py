"""Many group of one stream in one process: one consumer, and no reading is held up by another."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Sequence

import pytest

from remuda.embedded import NatsServer
from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, HistoryChanged, Message, Outgoing, Reader, Unreadable
from remuda_bus.nats import NatsBus, connect

INBOX = subjects.INBOX.name
MANY = 60


async def consumers(bus: NatsBus) -> int:
    return int((await bus._jetstream.api(f"STREAM.INFO.{INBOX}"))["state"]["consumer_count"])


async def readers_of(bus: Bus, count: int, after: int = 0) -> list[Reader]:
    return list(await asyncio.gather(*(bus.read(INBOX, subjects.inbox(f"rm-{n}"), after) for n in range(count))))


async def append(bus: Bus, numbers: Sequence[int], size: int = 0) -> None:
    """One message each, in that order; its payload begins with a count."""
    messages = [Outgoing(subjects.inbox(f"rm-{n}"), b"%d " % count + bytes(size)) for count, n in enumerate(numbers)]
    for begin in range(0, len(messages), 500):
        await bus.append_all(messages[begin : begin + 500], 30)


def counts(messages: Sequence[Message]) -> list[int]:
    return [int(message.payload.partition(b" ")[0]) for message in messages]


async def take(reader: Reader, how_many: int, at_once: int = 1_000) -> list[int]:
    got: list[int] = []
    while len(got) < how_many:
        some = await reader.batch(at_once, timeout_s=30)
        assert some, f"{len(got)} of {how_many} were received"
        got += counts(some)
    return got


async def test_many_readers_share_one_consumer(bus: NatsBus) -> None:
    few = await readers_of(bus, limits.OWN_CONSUMERS)
    assert await consumers(bus) == limits.OWN_CONSUMERS
    await append(bus, range(limits.OWN_CONSUMERS))
    assert [await take(reader, 1) for reader in few] == [[n] for n in range(limits.OWN_CONSUMERS)]
    readers = await readers_of(bus, MANY)
    waiting = [asyncio.ensure_future(take(reader, 2)) for reader in few]
    await append(bus, range(MANY))
    await append(bus, range(MANY))
    assert [await take(reader, 2 + (n < len(few))) for n, reader in enumerate(readers)] == [
        [n] * (2 + (n < len(few))) for n in range(MANY)
    ]
    assert await asyncio.gather(*waiting) == [[n, n] for n in range(len(few))]
    await until(lambda: consumers(bus), 1)
    left = limits.OWN_CONSUMERS // 2
    for reader in (*readers, *few[left:]):
        await reader.close()
    waiting = [asyncio.ensure_future(take(reader, 1)) for reader in few[:left]]
    await until(lambda: consumers(bus), left)
    await append(bus, range(MANY))
    assert await asyncio.gather(*waiting) == [[n] for n in range(left)]


async def until(question: object, wanted: int) -> None:
    """Wait: the server deletes an ephemeral consumer some time after its subscription has ended."""
    async with asyncio.timeout(20):
        while await question() != wanted:  # type: ignore[operator]  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_reader_that_starts_late_receives_each_message_once(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetched messages and those of the shared consumer fit together, while other tasks append."""
    monkeypatch.setattr(limits, "OWN_CONSUMERS", 0)
    monkeypatch.setattr(limits, "FETCH_MESSAGES", 7)
    rng, total = random.Random(1), 3_000
    numbers = [rng.randrange(5) for _ in range(total)]
    expected = {n: [count for count, one in enumerate(numbers) if one == n] for n in range(5)}

    async def write() -> None:
        for count, n in enumerate(numbers):
            await bus.append(subjects.inbox(f"rm-{n}"), b"%d " % count)

    async def read(delay: int, n: int) -> list[int]:
        while await bus.last_sequence(INBOX) < delay:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        reader = await bus.read(INBOX, subjects.inbox(f"rm-{n}"))
        return await take(reader, len(expected[n]), rng.randrange(1, 20))

    writing = asyncio.ensure_future(write())
    begins = [(rng.randrange(total), rng.randrange(5)) for _ in range(30)]
    got = await asyncio.gather(*(read(*begin) for begin in begins))
    assert got == [expected[n] for _, n in begins]
    await writing


async def test_an_idle_reader_does_not_delay_others(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OWN_CONSUMERS", 0)
    monkeypatch.setattr(limits, "BUFFERED_BYTES", 2_000_000)
    slow, quick = await readers_of(bus, 2)
    tracemalloc.start()
    for _ in range(20):
        await append(bus, [0] * 20, size=100_000)
        await append(bus, [1] * 10)
        assert await take(quick, 10) == list(range(10))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10_000_000, "of 40 MB that the slow one has not taken"
    assert await take(slow, 400) == [*range(20)] * 20
    await append(bus, [0, 0, 1])
    assert await take(slow, 2) == [0, 1]
    assert await take(quick, 1) == [2]


async def test_readers_of_idle_subjects_send_no_requests(bus: NatsBus) -> None:
    readers = await readers_of(bus, 300)
    waiting = [asyncio.ensure_future(reader.batch()) for reader in readers]
    await asyncio.sleep(0.1)
    connection = bus._connection
    before = next(connection._tokens)
    tasks = len(asyncio.all_tasks())
    await asyncio.sleep(2 * limits.HEARTBEAT_INTERVAL_S)
    assert next(connection._tokens) == before + 1, "no question was asked"
    assert tasks < len(readers) + 20, "no task of its own"
    for one in waiting:
        one.cancel()


async def test_all_readers_continue_after_an_outage(server: NatsServer, bus: NatsBus) -> None:
    readers = await readers_of(bus, MANY)
    await append(bus, range(MANY))
    assert [await take(reader, 1) for reader in readers] == [[n] for n in range(MANY)]
    waiting = [asyncio.ensure_future(take(reader, 2)) for reader in readers[: MANY // 2]]
    await asyncio.sleep(0)
    await server.restart()
    other = await connect(server.url, "other", timeout_s=5)
    await append(other, range(MANY))
    await append(other, range(MANY))
    waiting += [asyncio.ensure_future(take(reader, 2)) for reader in readers[MANY // 2 :]]
    assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [[n, n] for n in range(MANY)]
    await other.close()


async def test_readers_with_changed_history_raise_and_others_continue(server: NatsServer, bus: NatsBus) -> None:
    """The end of the stream was lost. Some readers had read it."""
    readers = await readers_of(bus, MANY)
    await append(bus, range(MANY))
    for n, reader in enumerate(readers):
        assert await take(reader, 1) == [n]
    other = await connect(server.url, "other", timeout_s=5)
    await other._jetstream.api(f"STREAM.DELETE.{INBOX}")
    await other.declare()
    await append(other, range(MANY // 2))
    await other.close()
    await server.restart()
    batches = await asyncio.gather(*(reader.batch(timeout_s=5) for reader in readers), return_exceptions=True)
    assert [isinstance(one, HistoryChanged) for one in batches] == [n >= MANY // 2 for n in range(MANY)]


async def test_a_closed_reader_among_others_raises(bus: NatsBus) -> None:
    readers = await readers_of(bus, MANY)
    waiting = asyncio.ensure_future(readers[0].batch())
    await asyncio.sleep(0.05)
    await readers[0].close()
    with pytest.raises(Unreadable, match="closed"):
        await asyncio.wait_for(waiting, 5)
    await append(bus, [1])
    assert await take(readers[1], 1) == [0]


async def test_reading_with_short_timeouts_succeeds(bus: NatsBus) -> None:
    await append(bus, [0] * 100)
    readers = await readers_of(bus, MANY)
    async with asyncio.timeout(20):
        got: list[int] = []
        while len(got) < 100:
            got += counts(await readers[0].batch(timeout_s=0.0001))
    assert got == list(range(100))


async def test_a_reader_is_woken_while_its_buffer_is_dropped(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader fetches the dropped messages, instead of waiting for the next one."""
    monkeypatch.setattr(limits, "OWN_CONSUMERS", 0)
    reader, _ = await readers_of(bus, 2)
    waiting = asyncio.ensure_future(take(reader, 1))
    group = bus._reader_groups[INBOX]
    async with asyncio.timeout(5):
        while not (subscription := group._by_subject[subjects.inbox("rm-0")][0])._waiter:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    offer = subscription.offer

    def offer_and_drop(message: Message) -> None:
        offer(message)
        subscription.drop_buffer()

    monkeypatch.setattr(subscription, "offer", offer_and_drop)
    await append(bus, [0])
    assert await asyncio.wait_for(waiting, 5) == [0]


async def test_a_broken_shared_consumer_leaves_nothing_behind(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OWN_CONSUMERS", 0)
    (reader,) = await readers_of(bus, 1)
    before = len(bus._connection.client._subs), len(bus._connection._on_reconnect)
    for count in range(5):
        feed = bus._reader_groups[INBOX]._consumer
        assert feed is not None
        feed.fail("in doubt")
        await append(bus, [0])
        assert await take(reader, 1) == [0], count
    await asyncio.sleep(0.05)
    assert (len(bus._connection.client._subs), len(bus._connection._on_reconnect)) == before
