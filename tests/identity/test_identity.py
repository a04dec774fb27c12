"""A replay of an archive is the history. `make identity` plays more of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from remuda.history.exact import Compared, compare
from remuda.history.past import At, NoPast, Past
from remuda_archive.holdings import segment_name
from remuda_archive.segments import decode, encode, joined
from remuda_archive.store import Store
from remuda_bus.bus import Message
from remuda_core.check import digest
from remuda_core.core import Core
from remuda_core.shell import replay
from remuda_core.shell.machine import CoreMachine
from remuda_core.wire import schema
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import START, Chain
from tests.identity import recorder
from tests.identity.recorder import Recorder, write_snapshot
from tests.identity.simulations import recorded

# Of 16 seconds and 126 commits, with several leaders.
SEED = 6


@pytest.fixture(scope="module")
def played() -> Recorder:
    story, recorders = recorded(SEED)
    assert not story.violations
    return recorders[0]


@pytest.fixture(scope="module")
def states(played: Recorder) -> list[tuple[int, int, str, bytes]]:
    """Sequence, time, digest and snapshot at each commit."""
    core, chain = Core(played.rm), Chain(START)
    machine, found = CoreMachine(core), []
    for message in played.log:
        if (entry := chain.accept(message)) is not None:
            replay.apply(core, schema.Commit.FromString(entry.commit.SerializeToString()))
            snapshot = b"".join(machine.save(entry.position))
            found.append((entry.seq, entry.commit.now_ms, digest(core.state), snapshot))
    return found


async def past_of(one: Recorder, directory: Path) -> Past:
    store = Store.open(str(directory))
    await one.write(store)
    return await Past.open(store, one.rm)


async def compared(past: Past) -> Compared:
    found = Compared()
    async for begin, end in past.stretches():
        found.add(await compare(past, begin, end))
    return found


async def test_the_same_is_decided_again(played: Recorder, tmp_path: Path) -> None:
    found = await compared(await past_of(played, tmp_path))
    assert (found.different, found.unread) == (0, 0)
    assert found.commits > 100 and found.facts > 300


async def test_another_decision_is_found(played: Recorder, tmp_path: Path) -> None:
    """The same log, in which one allocation is on another node."""
    changed = Recorder(played._bus, played.rm)
    changed.inbox = played.inbox
    changed.log, seq = _with_another_node(played.log)
    found = await compared(await past_of(changed, tmp_path))
    assert [one.log_seq for one in found.differences][0] == seq
    assert "recorded allocated" in str(found.differences[0])


def _with_another_node(log: list[Message]) -> tuple[list[Message], int]:
    """One allocation of the last commit that has one, on a node of the same state; the chain is made to agree."""
    commits = [(one, log_pb2.Commit.FromString(one.payload)) for one in log]
    for number in range(len(commits) - 1, 0, -1):
        message, commit = commits[number]
        nodes = [fact.node_added.node_id for _, c in commits[:number] for d in c.decisions for fact in d.facts
                 if fact.HasField("node_added")]  # fmt: skip
        for decision in commit.decisions:
            for fact in decision.facts:
                others = [one for one in nodes if one != fact.allocated.allocation.nodeID]
                if decision.command == "Schedule" and fact.HasField("allocated") and others:
                    fact.allocated.allocation.nodeID = others[-1]
                    cut = Message(message.subject, commit.SerializeToString(), message.headers, message.seq,
                                  message.stored_ns)  # fmt: skip
                    return [*log[:number], cut], message.seq
    raise AssertionError("no allocation")


async def test_any_state_is_restored_from_the_nearest_snapshot(
    played: Recorder, states: list[tuple[int, int, str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "COMMITS_OF_A_SEGMENT", 10)
    store = Store.open(str(tmp_path))
    await played.write(store)
    for seq, now_ms, _, snapshot in states[30::40]:
        await write_snapshot(store, played.rm, seq, now_ms, snapshot)
    past = await Past.open(store, played.rm)
    for number in (0, 1, 29, 30, 31, 69, 70, 71, len(states) - 1):
        seq, now_ms, expected, _ = states[number]
        restored = await past.restore(At(seq=seq))
        assert digest(restored.core.state) == expected, number
        assert restored.commits == (number + 1 if number < 30 else (number - 30) % 40), number
        last = max(one for one, at_ms, _, _ in states if at_ms <= now_ms)
        assert (await past.restore(At(ms=now_ms))).position.seq == last
    with pytest.raises(NoPast, match="begins"):
        await past.restore(At(ms=states[0][1] - 1))
    with pytest.raises(NoPast, match="up to"):
        await past.restore(At(seq=states[-1][0] + 1))


async def test_segments_that_are_joined_while_they_are_read_are_read_once(
    played: Recorder, states: list[tuple[int, int, str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "COMMITS_OF_A_SEGMENT", 10)
    store = Store.open(str(tmp_path))
    await played.write(store)
    past = await Past.open(store, played.rm)
    [(begin, end)] = [one async for one in past.stretches()]
    seqs, inbox = list[int](), list[int]()
    async for step in past.steps(begin, end):
        seqs.append(step.entry.seq)
        inbox += (message.seq for message in step.inbox)
        if len(seqs) == 15:  # an hour has ended
            names = sorted(await store.names())
            header, records = joined([decode(await store.content(name)) for name in names])
            name = segment_name(played.rm, header.since_ms, header.first, header.end.seq)
            await store.put(name, encode(header, records))
            for one in names:
                await store.delete(one)
    assert seqs == [seq for seq, *_ in states]
    handled = Chain(START)
    last = max(entry.commit.inbox_seq for one in played.log if (entry := handled.accept(one)) is not None)
    assert inbox == [message.seq for message in played.inbox if message.seq <= last]


async def test_a_gap_is_named_and_what_follows_a_snapshot_behind_it_is_there(
    played: Recorder, states: list[tuple[int, int, str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "COMMITS_OF_A_SEGMENT", 10)
    store = Store.open(str(tmp_path))
    await played.write(store)
    names = sorted(await store.names())
    await store.delete(names[4])
    await write_snapshot(store, played.rm, *_of(states[64]))
    past = await Past.open(store, played.rm)
    with pytest.raises(NoPast, match="does not have the commits"):
        await past.restore(At(seq=states[55][0]))
    assert digest((await past.restore(At(seq=states[80][0]))).core.state) == states[80][2]
    found = await compared(past)
    assert found.different == 0 and found.commits == 40 + len(states) - 65


async def test_an_archive_without_a_state_to_begin_with_says_so(
    played: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "COMMITS_OF_A_SEGMENT", 10)
    store = Store.open(str(tmp_path))
    await played.write(store)
    await store.delete(min(await store.names()))
    past = await Past.open(store, played.rm)
    with pytest.raises(NoPast, match=f"no snapshot of '{played.rm}', and begins with commit 1[0-9]"):
        await past.beginning(None)


def _of(state: tuple[int, int, str, bytes]) -> tuple[int, int, bytes]:
    return state[0], state[1], state[3]
