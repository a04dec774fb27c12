"""To which RMs rmproxy publishes callbacks, and until when."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.retry import RetryPolicy
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import START, LogReader, LogWriter
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callback_publisher import OnDecision, PublishedPosition, read_published_position
from remuda_rmproxy.outbound.publishers import CallbackPublishers


def publishers_of(bus: MemoryBus, group: asyncio.TaskGroup, on_decision: OnDecision) -> CallbackPublishers:
    halts = Halts(bus, "rmproxy", lambda: 0)
    return CallbackPublishers(bus, group, halts, Faults(bus, halts, "rmproxy", count(1).__next__), on_decision)


async def commit(bus: MemoryBus, rm_id: str, *node_ids: str) -> None:
    reader = await LogReader.open(bus, rm_id)
    facts = [log_pb2.Fact(node_added=log_pb2.NodeAdded(node_id=one)) for one in node_ids]
    decision = log_pb2.Decision(correlation_id="somebody waits", facts=facts)
    await LogWriter(bus, rm_id, reader.position).append(log_pb2.Commit(decisions=[decision]))


async def until_there(bus: MemoryBus, stream: str, subject: str) -> None:
    async with asyncio.timeout(5):
        while await bus.last_message(stream, subject) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_an_exception_at_a_commit_halts_its_rm_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PUBLISH_RETRY", RetryPolicy(0.0))
    bus, decided_of = MemoryBus(), []

    async def on_decision(rm_id: str, decision: log_pb2.Decision) -> None:
        decided_of.append(rm_id)
        assert rm_id != "bad", "a fault of ours"

    await commit(bus, "bad", "n1")
    await commit(bus, "good", "n1")
    async with asyncio.TaskGroup() as group:
        publishers = publishers_of(bus, group, on_decision)
        for rm_id in ("bad", "good"):
            publishers.start_for(rm_id)
        await until_there(bus, subjects.CALLBACKS.name, subjects.callback("good", "node"))
        async with asyncio.timeout(5):
            while (halt := await bus.get(subjects.HALTS.name, "bad")) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert halt.value is not None and b"message 1 of LOG: AssertionError: a fault of ours" in halt.value
        assert decided_of.count("bad") == 2
        assert await bus.get(subjects.HALTS.name, "good") is None
        for rm_id in ("bad", "good"):
            publishers.stop_for(rm_id)
    await bus.close()


async def test_a_log_trimmed_beyond_the_newest_callback_halts_the_rm() -> None:
    """Trimming keeps the commit of the newest callback, so this is another log."""
    bus = MemoryBus()

    async def on_decision(rm_id: str, decision: log_pb2.Decision) -> None:
        pass

    writer = LogWriter(bus, "rm-1", START)
    first, _, last = [await writer.append(log_pb2.Commit(now_ms=number)) for number in range(3)]
    await bus.append(subjects.callback("rm-1", "node"), b"", {**first.headers(), subjects.LOG_FACT: "0"})
    await bus.trim(subjects.LOG.name, subjects.log("rm-1"), last.seq)
    async with asyncio.TaskGroup() as group:
        publishers = publishers_of(bus, group, on_decision)
        publishers.start_for("rm-1")
        async with asyncio.timeout(5):
            while (halt := await bus.get(subjects.HALTS.name, "rm-1")) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert halt.value is not None and b"no callback of the RM is behind it" in halt.value
        publishers.stop_for("rm-1")
    await bus.close()


async def test_only_rms_with_untrimmed_callbacks_are_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRIM_CALLBACKS_INTERVAL_S", 0.01)
    bus, looked = MemoryBus(), []

    async def on_decision(rm_id: str, decision: log_pb2.Decision) -> None:
        pass

    async def acknowledged(stream: str, durable: str) -> int:
        looked.append(durable)
        return 1_000

    monkeypatch.setattr(bus, "acknowledged_sequence", acknowledged)
    await bus.append(subjects.callback("rm-7", "dead_letter"), b"")  # the newest callback from the log is never deleted
    await commit(bus, "rm-7", "n1")
    async with asyncio.TaskGroup() as group:
        publishers = publishers_of(bus, group, on_decision)
        for number in range(100):
            publishers.start_for(f"rm-{number}")
        await until_there(bus, subjects.CALLBACKS.name, subjects.callback("rm-7", "node"))
        trimming = group.create_task(publishers.trim())
        async with asyncio.timeout(5):
            while not looked:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert set(looked) == {subjects.callback_consumer("rm-7")}
        trimming.cancel()
        for number in range(100):
            publishers.stop_for(f"rm-{number}")
    await bus.close()


async def test_a_process_that_is_ending_starts_no_publisher() -> None:
    async def on_decision(rm_id: str, decision: log_pb2.Decision) -> None:
        raise AssertionError

    bus = MemoryBus()
    async with asyncio.TaskGroup() as group:
        publishers = publishers_of(bus, group, on_decision)
    with pytest.raises(Unanswered, match="ending"):
        publishers.start_for("rm-1")


@pytest.mark.parametrize("headers", [{subjects.LOG_SEQ: "x"}, {subjects.LOG_SEQ: "1", subjects.LOG_FACT: "9" * 5_000}])
async def test_a_callback_of_another_client_halts_its_rm(headers: dict[str, str]) -> None:
    bus = MemoryBus()
    await bus.append(subjects.callback("rm-1", "node"), b"", headers)
    with pytest.raises(HistoryChanged, match="none of ours") as problem:
        await read_published_position(bus, "rm-1")
    assert len(str(problem.value)) < 300
    await bus.close()


async def test_dead_letters_behind_a_refused_configuration_do_not_hide_its_position() -> None:
    """Both are on one subject; a callback about a dead letter of the forwarder holds no position."""
    bus = MemoryBus()
    dead_letter = subjects.callback("rm-1", "dead_letter")
    entries = [await LogWriter(bus, "rm-1", START).append(log_pb2.Commit())]
    entries.append(await LogWriter(bus, "rm-1", entries[0]).append(log_pb2.Commit()))
    await bus.append(subjects.callback("rm-1", "node"), b"", {**entries[0].headers(), subjects.LOG_FACT: "0"})
    await bus.append(dead_letter, b"", {})
    seq = await bus.append(dead_letter, b"", {**entries[1].headers(), subjects.LOG_FACT: "3"})
    for _ in range(2_500):
        await bus.append(dead_letter, b"", {})
    assert await read_published_position(bus, "rm-1") == PublishedPosition(entries[1], 3, seq)

    newer = await bus.append(subjects.callback("rm-1", "node"), b"", {**entries[1].headers(), subjects.LOG_FACT: "4"})
    await bus.append(dead_letter, b"", {})
    assert await read_published_position(bus, "rm-1") == PublishedPosition(entries[1], 4, newer)
    await bus.close()
