"""Snapshots and the log behind them give the same state; unreadable snapshots are skipped; old ones are deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import connect
from remuda_core import commands
from remuda_core.check import check, digest
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import built_in
from remuda_core.shell import replay
from remuda_core.shell.machine import CoreMachine
from remuda_core.shell.settings import CoreSettings
from remuda_core.wire import schema, snapshot_format
from remuda_core.wire.codec import CommitCodec
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogReader, LogWriter, Position
from remuda_replication.snapshots import DIGESTS_AT_ONCE, SnapshotListing, Snapshots, restore, trim

RM = "rm:1"
PARTITION = f"[{RM}]default"
EMPTY = CoreMachine(Core(RM))
SETTINGS = CoreSettings(snapshot_facts=1, snapshot_apart_s=0, replay_horizon_s=0)


@pytest.fixture(autouse=True)
def always_in_a_child() -> Iterator[None]:
    """Also where the state is small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remuda_replication.snapshots.SNAPSHOT_HERE", -1)
        yield


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus()
        return
    async with NatsServer(tmp_path / "nats") as server:
        connected = await connect(server.url, "core", timeout_s=5)
        await connected.declare()
        yield connected
        await connected.close()


class Lead:
    """Decides and appends as a leader does, one commit per call."""

    def __init__(self, bus: Bus, settings: CoreSettings = SETTINGS) -> None:
        self.bus = bus
        self.core = Core(RM)
        self.writer = LogWriter(bus, RM, Position())
        self.snapshots = Snapshots(bus, CoreMachine(self.core), settings)
        self.now_ms = 1_000_000

    async def do(self, *asked: commands.Command) -> Position:
        self.now_ms += 10
        self.core.state.inbox_seq = await self.bus.append(subjects.inbox(RM), b"a command")
        commit = log_pb2.Commit(inbox_seq=self.core.state.inbox_seq, now_ms=self.now_ms)
        decision = commit.decisions.add(command="Test", inbox_seq=commit.inbox_seq)
        CommitCodec().write(self.core.handle_all(asked, self.now_ms), decision)
        self.snapshots.count(len(decision.facts))
        return await self.writer.append(commit)

    async def begin(self) -> None:
        node = commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 1_000})
        submit = commands.SubmitApplication(PARTITION, "app-1", "root.a", "alice", tags={"namespace": "a"})
        await self.do(commands.Register(RM, ONE_QUEUE), node, submit)

    async def ask(self, number: int) -> Position:
        ask = Ask(PARTITION, "app-1", f"k{number}", {"vcore": 1}, execution_timeout_ms=60_000)
        return await self.do(commands.SubmitAsk(ask), commands.Schedule(10))

    async def snapshot(self) -> None:
        assert self.snapshots.wanted()
        self.snapshots.take(self.writer.position)
        assert self.snapshots._writing is not None
        await self.snapshots._writing


ONE_QUEUE = built_in()


async def restored(bus: Bus) -> tuple[Core, Position]:
    """As a core that starts: the snapshot, and the rest of the log."""
    core = Core(RM)
    position = await restore(bus, CoreMachine(core))
    reader = await LogReader.open(bus, RM, position, commit_class=schema.Commit)
    async for entries in reader.read_to_end():
        for entry in entries:
            replay.apply(core, entry.commit)
    await reader.close()
    check(core.state, core.index)
    return core, position


async def test_a_snapshot_and_the_rest_of_the_log(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    at = [await lead.ask(number) for number in range(5)][-1]
    await lead.snapshot()
    core, position = await restored(bus)
    assert position == at
    assert digest(core.state) == digest(lead.core.state)
    assert core.state.inbox_seq == lead.core.state.inbox_seq
    assert core.state.timers.next_ms() == lead.core.state.timers.next_ms() is not None
    await lead.ask(5)
    core, position = await restored(bus)
    assert position == at
    assert digest(core.state) == digest(lead.core.state)


async def test_the_leader_goes_on_while_its_snapshot_is_written(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    at = await lead.ask(0)
    before = digest(lead.core.state)
    lead.snapshots.take(at)
    later = await lead.ask(1)
    assert not lead.snapshots.wanted(), "one at a time"
    assert lead.snapshots._writing is not None
    await lead.snapshots._writing
    core = Core(RM)
    assert await restore(bus, CoreMachine(core)) == at != later
    assert digest(core.state) == before != digest(lead.core.state)
    assert lead.snapshots.wanted()


async def test_two_are_kept(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    positions = []
    for number in range(4):
        positions.append((await lead.ask(number)).seq)
        await lead.snapshot()
    assert await SnapshotListing(bus).kept(RM) == positions[-2:]
    assert await bus.object_names(subjects.SNAPSHOTS.name) == sorted(f"rm=1.{seq}" for seq in positions[-2:])


@pytest.mark.parametrize("damage", ["nothing", "garbage", "cut", "format", "another's"])
async def test_what_cannot_be_read_falls_back_to_the_one_before(bus: Bus, damage: str) -> None:
    lead = Lead(bus)
    await lead.begin()
    at = await lead.ask(0)
    await lead.snapshot()
    newest = await lead.ask(1)
    await lead.snapshot()
    good = await bus.get_object(subjects.SNAPSHOTS.name, f"rm=1.{newest.seq}")
    assert good is not None
    payload = {
        "nothing": b"",
        "garbage": b"\xff\xff",
        "cut": good[: len(good) // 2],
        "format": b"\x08\x63" + good[2:],
        "another's": b"".join(snapshot_format.write("rm-2", newest, [])),
    }[damage]

    async def parts() -> AsyncIterator[bytes]:
        yield payload

    await bus.put_object(subjects.SNAPSHOTS.name, f"rm=1.{newest.seq}", parts())
    with capture_logs() as told:
        core, position = await restored(bus)
    assert position == at
    assert digest(core.state) == digest(lead.core.state)
    assert [entry["snapshot"] for entry in told if entry["log_level"] == "error"] == [f"rm=1.{newest.seq}"]


async def test_without_a_snapshot_the_log_has_to_be_whole(bus: Bus) -> None:
    assert await restore(bus, EMPTY) == Position()
    lead = Lead(bus)
    await lead.begin()
    at = await lead.ask(0)
    core, position = await restored(bus)
    assert position == Position() and digest(core.state) == digest(lead.core.state)
    await bus.trim(subjects.LOG.name, subjects.log(RM), at.seq)
    with pytest.raises(HistoryChanged, match="no snapshot"):
        await restore(bus, EMPTY)


async def test_a_snapshot_before_the_beginning_of_the_log_is_none_to_go_on_from(bus: Bus) -> None:
    """Trimming keeps what follows the oldest snapshot, so the log is another than that of the snapshot."""
    lead = Lead(bus)
    await lead.begin()
    await lead.ask(0)
    await lead.snapshot()
    last = [await lead.ask(number) for number in range(1, 4)][-1]
    await bus.trim(subjects.LOG.name, subjects.log(RM), last.seq)
    with pytest.raises(HistoryChanged, match="no snapshot"):
        await restore(bus, EMPTY)


class Slow:
    """The bus of a core that reads the list of snapshots, and then nothing for a while."""

    def __init__(self, bus: Bus, listed: list[str]) -> None:
        self._bus = bus
        self._listed = [listed]

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._bus, verb)

    async def object_names(self, bucket: str) -> list[str]:
        return self._listed.pop() if self._listed else await self._bus.object_names(bucket)


async def test_snapshots_that_come_and_go_meanwhile(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    listed = []
    for number in range(4):
        listed.append(await bus.object_names(subjects.SNAPSHOTS.name))
        await tell(bus, await lead.ask(number))
        await lead.snapshot()
    for names in listed[:2]:
        core = Core(RM)
        assert await restore(Slow(bus, names), CoreMachine(core)) == lead.writer.position
        assert digest(core.state) == digest(lead.core.state)


async def test_a_child_that_fails_leaves_nothing(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = Lead(bus)
    await lead.begin()

    def failing(state: object) -> list[object]:
        raise RuntimeError("on purpose")

    monkeypatch.setattr("remuda_core.shell.machine.save", failing)
    with capture_logs() as told:
        await lead.snapshot()
    assert [entry["event"] for entry in told if entry["log_level"] == "error"] == ["snapshot not written"]
    assert await bus.object_names(subjects.SNAPSHOTS.name) == []
    monkeypatch.undo()
    await lead.snapshot()
    assert len(await bus.object_names(subjects.SNAPSHOTS.name)) == 1


async def test_without_room_for_a_child_the_leader_goes_on(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = Lead(bus)
    await lead.begin()

    def fork() -> int:
        raise BlockingIOError("no process is left")

    monkeypatch.setattr("os.fork", fork)
    with capture_logs() as told:
        asked = asyncio.ensure_future(lead.snapshots.digest())
        await asyncio.sleep(0)
        lead.snapshots.take(lead.writer.position)
        with pytest.raises(Refused, match="no process is left"):
            await asked
    assert [entry["event"] for entry in told] == ["fork failed"]
    await lead.ask(0)
    monkeypatch.undo()
    await lead.snapshot()
    assert len(await bus.object_names(subjects.SNAPSHOTS.name)) == 1


async def test_when_one_is_due() -> None:
    lead = Lead(MemoryBus(), CoreSettings(snapshot_facts=100, snapshot_s=0.05, snapshot_apart_s=0))
    assert not lead.snapshots.wanted()
    lead.snapshots.count(99)
    assert not lead.snapshots.wanted(), "too few facts"
    lead.snapshots.count(1)
    assert lead.snapshots.wanted()
    lead = Lead(MemoryBus(), CoreSettings(snapshot_facts=100, snapshot_s=0.05, snapshot_apart_s=0))
    await asyncio.sleep(0.06)
    assert not lead.snapshots.wanted(), "nothing has happened"
    lead.snapshots.count(1)
    assert lead.snapshots.wanted(), "something has, and long ago"
    lead = Lead(MemoryBus(), CoreSettings(snapshot_facts=1, snapshot_s=0, snapshot_apart_s=3_600))
    lead.snapshots.count(1_000)
    assert not lead.snapshots.wanted(), "too soon"


async def test_a_few_digests_at_a_time(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    asked = [asyncio.ensure_future(lead.snapshots.digest()) for _ in range(DIGESTS_AT_ONCE)]
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="2 digests are being made"):
        await lead.snapshots.digest()
    lead.snapshots.take(lead.writer.position)
    assert set(await asyncio.gather(*asked)) == {(lead.writer.position.seq, digest(lead.core.state))}
    again = asyncio.ensure_future(lead.snapshots.digest())
    await asyncio.sleep(0)
    lead.snapshots.take(lead.writer.position)
    assert (await again)[1] == digest(lead.core.state)
    await lead.snapshots.close()


async def test_the_digest_is_of_the_state_in_the_log() -> None:
    lead = Lead(MemoryBus(), CoreSettings())
    await lead.begin()
    at, before = lead.writer.position, digest(lead.core.state)
    asked = asyncio.ensure_future(lead.snapshots.digest())
    await asyncio.sleep(0)
    assert lead.snapshots.wanted()
    lead.snapshots.take(at)
    await lead.ask(0)
    assert await asked == (at.seq, before)
    assert not lead.snapshots.wanted()
    asked = asyncio.ensure_future(lead.snapshots.digest())
    await asyncio.sleep(0)
    await lead.snapshots.close()
    with pytest.raises(Refused, match="does not lead"):
        await asked


# Trimming


async def first(bus: Bus, stream: str, subject: str) -> int:
    found = await bus.first_message(stream, subject)
    return 0 if found is None else found.seq


async def tell(bus: Bus, position: Position) -> None:
    """As rmproxy does."""
    await bus.append(subjects.callback(RM, "allocation"), b"", position.headers())


async def test_an_rm_with_much_in_its_inbox_has_it_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing came of it, and it is young."""
    monkeypatch.setattr("remuda_replication.snapshots.SNAPSHOT_INBOX_BYTES", 10_000)
    monkeypatch.setattr("remuda_replication.snapshots.SNAPSHOT_INBOX_APART_S", 0.0)
    bus = MemoryBus()
    lead = Lead(bus, CoreSettings(snapshot_facts=10**6, snapshot_s=10**6, snapshot_apart_s=10**6))
    await lead.begin()
    release = commands.ReleaseAsk(PARTITION, "none", "none")
    for _ in range(3):
        for _ in range(10):
            assert not lead.snapshots.wanted()
            lead.snapshots.count_inbox([Message(subjects.inbox(RM), bytes(900))])
            await lead.do(release)
        assert lead.snapshots.idle_s() is not None
        await lead.snapshot()
    assert await bus.message_count(subjects.INBOX.name, subjects.inbox(RM)) == 10 + 1
    core, _ = await restored(bus)
    assert digest(core.state) == digest(lead.core.state)


async def test_a_leader_reads_on_when_its_snapshot_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.snapshots.READ_WHILE_WRITING_BYTES", 10_000)
    may_store = asyncio.Event()

    class Slow(MemoryBus):
        async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
            await may_store.wait()
            await super().put_object(bucket, name, parts)

    lead = Lead(Slow())
    await lead.begin()
    lead.snapshots.take(lead.writer.position)
    await lead.snapshots.room()
    lead.snapshots.count_inbox([Message(subjects.inbox(RM), bytes(10_000))])
    waits = asyncio.create_task(lead.snapshots.room())
    await asyncio.sleep(0.01)
    assert not waits.done()
    may_store.set()
    await waits
    await lead.snapshots.close()


async def test_what_is_behind_the_oldest_snapshot_goes(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    await bus.append(subjects.log("rm-2"), b"another's")
    positions = []
    for number in range(3):
        positions.append(await lead.ask(number))
        await tell(bus, positions[-1])
        await lead.snapshot()
    assert await first(bus, "LOG", subjects.log(RM)) == positions[-2].seq
    assert await first(bus, "LOG", subjects.log("rm-2")) > 0
    first_inbox = await first(bus, "INBOX", subjects.inbox(RM))
    assert first_inbox == lead.core.state.inbox_seq - 1
    core, position = await restored(bus)
    assert position == positions[-1] and digest(core.state) == digest(lead.core.state)
    await bus.delete_object(subjects.SNAPSHOTS.name, f"rm=1.{position.seq}")
    core, position = await restored(bus)
    assert position == positions[-2] and digest(core.state) == digest(lead.core.state)
    reader = await LogReader.open(bus, RM, None)
    assert [entry.seq for entry in await reader.batch()] == [at.seq for at in positions[-2:]]
    await reader.close()


async def test_not_beyond_what_is_told(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    positions = [await lead.ask(number) for number in range(5)]
    begin = await first(bus, "LOG", subjects.log(RM))
    await trim(bus, EMPTY, positions[4].seq, 0)
    assert await first(bus, "LOG", subjects.log(RM)) == begin, "the RM was told of nothing"
    await tell(bus, positions[1])
    await trim(bus, EMPTY, positions[4].seq, 0)
    assert await first(bus, "LOG", subjects.log(RM)) == positions[1].seq
    await tell(bus, positions[4])
    await bus.append(subjects.event(RM), b"", {**positions[2].headers(), subjects.EVENT_INDEX: "0"})
    await trim(bus, EMPTY, positions[4].seq, 0)
    assert await first(bus, "LOG", subjects.log(RM)) == positions[2].seq
    mark = b'{"seq": %d, "hash": ""}' % positions[3].seq
    await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.key_of(RM), mark)
    await trim(bus, EMPTY, positions[4].seq, 0)
    assert await first(bus, "LOG", subjects.log(RM)) == positions[3].seq


async def test_what_is_young_stays(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    old = [await lead.ask(number) for number in range(3)]
    between = time.monotonic()
    await asyncio.sleep(0.5)
    young = [await lead.ask(number) for number in range(3, 6)]
    await tell(bus, young[-1])
    await trim(bus, EMPTY, young[-1].seq, 3_600)
    assert await first(bus, "LOG", subjects.log(RM)) == 1
    await trim(bus, EMPTY, young[-1].seq, time.monotonic() - between)
    assert await first(bus, "LOG", subjects.log(RM)) == old[-1].seq


async def test_a_log_begins_with_a_whole_commit(bus: Bus) -> None:
    lead = Lead(bus)
    await lead.begin()
    lead.writer._limit = 400
    before = await lead.ask(0)
    asks = [commands.SubmitAsk(Ask(PARTITION, "app-1", f"m{n}", {"vcore": 1})) for n in range(20)]
    at = await lead.do(*asks)
    assert at.seq > before.seq + 2, "it has parts"
    lead.writer._limit = 100_000
    await lead.ask(1)
    await tell(bus, at)
    await trim(bus, EMPTY, at.seq, 0)
    assert await first(bus, "LOG", subjects.log(RM)) == before.seq + 1
    reader = await LogReader.open(bus, RM, None)
    assert [entry.seq for entry in await reader.batch()][:1] == [at.seq]
    await reader.close()


async def test_an_inbox_that_is_too_full_keeps_only_what_no_snapshot_has() -> None:
    bus = MemoryBus()
    lead = Lead(bus)
    await lead.begin()
    positions = [await lead.ask(number) for number in range(5)]
    await trim(bus, EMPTY, positions[3].seq, 3_600)
    assert await first(bus, "INBOX", subjects.inbox(RM)) == 1
    bus.resize("INBOX", 100)
    await trim(bus, EMPTY, positions[3].seq, 3_600)
    assert await first(bus, "INBOX", subjects.inbox(RM)) == lead.core.state.inbox_seq - 1
    assert await first(bus, "LOG", subjects.log(RM)) == 1, "nothing was told, and all is young"


async def test_a_stream_that_is_too_full_keeps_only_what_is_needed() -> None:
    bus = MemoryBus()
    lead = Lead(bus)
    await lead.begin()
    positions = [await lead.ask(number) for number in range(5)]
    await tell(bus, positions[-1])
    await trim(bus, EMPTY, positions[-1].seq, 3_600)
    assert await first(bus, "LOG", subjects.log(RM)) == 1
    bus.resize("LOG", 100)
    await trim(bus, EMPTY, positions[-1].seq, 3_600)
    assert await first(bus, "LOG", subjects.log(RM)) == positions[-1].seq
    bus.resize("LOG", 1_000_000)
    await tell(bus, at := await lead.ask(5))
    await trim(bus, EMPTY, at.seq, 3_600)
    assert await first(bus, "LOG", subjects.log(RM)) == positions[-1].seq, "all that is left is young"
