"""The chain rule: all readers agree on the commits in force, whatever two leaders write."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus.bus import HistoryChanged, Message
from remuda_bus.streams.history_check import digest_of
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import Chain, LogEntry, Position, join_parts, split_commit

START = Position()


class Leader:
    """Writes like a leader that has read a prefix of the log. It may end within a commit."""

    def __init__(self, name: str, head: Position) -> None:
        self.name = name
        self.head = head
        self.tip = head
        self.part = 0

    def write(self, seq: int, more: bool) -> Message:
        commit = log_pb2.Commit(
            parent=self.tip.seq, parent_hash=self.tip.hash, part=self.part, more=more, now_ms=seq, inbox_seq=seq
        )
        commit.decisions.add(command=self.name, correlation_id=str(seq))
        payload = commit.SerializeToString()
        self.tip = Position(seq, digest_of(payload))
        self.part += 1
        if not more:
            self.head, self.part = self.tip, 0
        return Message("remuda.log.a", payload, seq=seq)

    def give_up(self, head: Position) -> None:
        self.head = self.tip = head
        self.part = 0


def read(messages: list[Message], after: Position | None) -> list[LogEntry]:
    chain = Chain(after)
    since = after.seq if after is not None else 0
    entries = [chain.accept(message) for message in messages if message.seq > since]
    return [entry for entry in entries if entry is not None]


# The next step: the leader that writes, whether more parts follow, and whether it first reads the log anew.
steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.booleans(), st.sampled_from([False, False, False, True])), max_size=40
)


@given(steps, st.integers(1, 5))
def test_readers_agree_wherever_they_start(plan: list[tuple[str, bool, bool]], gap: int) -> None:
    """The server refuses a leader that has not read the last message. That leader reads the log again."""
    judge = Chain(START)
    leaders = {name: Leader(name, START) for name in "ab"}
    messages: list[Message] = []
    last_by = ""
    for (name, more, look), seq in zip(plan, itertools.count(gap, gap), strict=False):
        if look or last_by not in (name, ""):
            leaders[name].give_up(judge.head)
        last_by = name
        messages.append(leaders[name].write(seq, more))
        judge.accept(messages[-1])
    in_force = read(messages, START)
    for number, entry in enumerate(in_force):
        assert read(messages, entry.position) == in_force[number + 1 :]
        rest = [message for message in messages if message.seq > entry.seq]
        assert read(rest, None) == in_force[number + 1 :]  # trimmed up to there
    parents = [entry.commit.parent for entry in in_force]
    assert parents[:1] in ([], [0])
    assert judge.voided + sum(len(entry.commit.decisions) for entry in in_force) <= len(messages)
    for entry in in_force:
        # The decisions of one commit are one leader's.
        assert len({decision.command for decision in entry.commit.decisions}) == 1


@given(steps)
def test_of_two_leaders_that_no_server_refuses_one_is_in_force(plan: list[tuple[str, bool, bool]]) -> None:
    """The chain alone keeps one history in force. Where a leader continues from a void commit, readers stop."""
    judge = Chain(START)
    leaders = {name: Leader(name, START) for name in "ab"}
    heads = [START]
    for seq, (name, more, look) in enumerate(plan, 1):
        if look:
            leaders[name].give_up(judge.head)
        message = leaders[name].write(seq, more)
        try:
            entry = judge.accept(message)
        except HistoryChanged:
            return
        if entry is not None:
            assert Position(entry.commit.parent, entry.commit.parent_hash) == heads[-1]
            heads.append(entry.position)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_every_commit_of_a_single_leader_is_in_force(plan: list[bool]) -> None:
    leader = Leader("a", START)
    messages = [leader.write(seq, more) for seq, more in enumerate([*plan, False], 1)]
    entries = read(messages, START)
    assert sum(len(entry.commit.decisions) for entry in entries) == len(messages)
    assert entries[-1].position == leader.head


def test_parts_of_an_unfinished_commit_are_void() -> None:
    first = Leader("a", START)
    messages = [first.write(1, False), first.write(2, True), first.write(3, True)]
    second = Leader("b", read(messages, START)[-1].position)
    messages += [second.write(4, False), first.write(5, False), second.write(6, False)]
    chain = Chain(START)
    heard = [entry.seq for message in messages if (entry := chain.accept(message))]
    assert heard == [1, 4, 6]
    assert chain.voided == 3


def test_a_commit_with_an_unknown_parent_is_refused() -> None:
    chain = Chain(START)
    chain.accept(Leader("a", START).write(1, False))
    assert chain.accept(Leader("b", START).write(2, False)) is None
    assert chain.accept(Message("remuda.log.a", b"\xff no protobuf", seq=3)) is None
    assert chain.voided == 2
    assert chain.head.seq == 1


def test_changed_history_is_detected() -> None:
    leader = Leader("a", START)
    leader.write(1, False)
    chain = Chain(START)
    chain.accept(Leader("someone else", START).write(1, False))
    with pytest.raises(HistoryChanged, match="has the parent 1"):
        chain.accept(leader.write(2, False))


@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.integers(0, 12),
    st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=1, max_size=12),
)
def test_no_commit_of_a_fork_is_in_force(own: list[bool], common: int, fork: list[tuple[bool, int]]) -> None:
    """The log was put back to where `common` commits were, and went on otherwise, while other RMs wrote as well. A
    reader that sees only what comes behind its head takes nothing of it, and does not skip for ever."""
    leader, chain = Leader("a", START), Chain(START)
    heads = [START]
    for seq, more in enumerate([*own, False], 1):
        if chain.accept(leader.write(seq, more)):
            heads.append(leader.head)
    head = chain.head
    other = Leader("b", heads[min(common, len(heads) - 2)])
    seq, behind = other.head.seq, 0
    for more, step in fork:
        seq += step
        message = other.write(seq, more)
        if seq > head.seq:
            behind += not more
            try:
                assert chain.accept(message) is None
            except HistoryChanged:
                return
    assert chain.head == head
    assert behind <= 1, "the second commit that is seen shows that its author believed in the first"


def test_a_commit_of_a_late_leader_is_void_and_its_next_one_is_a_fork() -> None:
    """For its leader, a void commit is in force: one of the two logs is wrong."""
    late = Leader("late", START)
    messages = [late.write(1, False)]
    other = Leader("other", late.head)
    messages += [other.write(2, False), late.write(3, False)]
    chain = Chain(START)
    assert [chain.accept(message) is not None for message in messages] == [True, True, False]
    with pytest.raises(HistoryChanged, match="the commit at 4 has the parent 3, which is not in force"):
        chain.accept(late.write(4, False))


def test_parts_of_an_abandoned_commit_may_still_arrive() -> None:
    late = Leader("late", START)
    messages = [late.write(1, True), Leader("other", START).write(2, False), late.write(3, True), late.write(4, False)]
    chain = Chain(START)
    assert [chain.accept(message) is not None for message in messages] == [False, True, False, False]
    assert chain.voided == 3


def test_a_trimmed_log() -> None:
    leader = Leader("a", START)
    messages = [leader.write(seq, False) for seq in (1, 2, 3)][1:]
    with pytest.raises(HistoryChanged, match="has the parent 1"):
        read(messages, START)
    assert [entry.seq for entry in read(messages, None)] == [2, 3]


def test_a_log_trimmed_within_a_commit() -> None:
    leader = Leader("a", START)
    messages = [leader.write(1, True), leader.write(2, False), leader.write(3, False)][1:]
    assert [entry.seq for entry in read(messages, None)] == [3]


def test_a_changed_part_is_detected() -> None:
    leader = Leader("a", START)
    leader.write(1, True)
    chain = Chain(START)
    chain.accept(Leader("someone else", START).write(1, True))
    with pytest.raises(HistoryChanged):
        chain.accept(leader.write(2, False))


facts = st.builds(
    lambda node, size: log_pb2.Fact(node_removed=log_pb2.NodeRemoved(node_id=node, partition="p" * size)),
    st.text(min_size=1, max_size=3),
    st.integers(0, 60),
)
decisions = st.builds(
    lambda command, seq, found: log_pb2.Decision(command=command, inbox_seq=seq, correlation_id="c", facts=found),
    st.sampled_from(["Schedule", "Tick"]),
    st.integers(0, 3),
    st.lists(facts, max_size=12),
)


@given(st.lists(decisions, max_size=12), st.integers(400, 1_500))
def test_joined_parts_equal_the_split_commit(made: list[log_pb2.Decision], limit: int) -> None:
    commit = log_pb2.Commit(inbox_seq=7, now_ms=1_700_000_000_000, epoch=3, decisions=made)
    parts = list(split_commit(commit, limit))
    for number, part in enumerate(parts):
        part.parent, part.parent_hash = 2**60, bytes(32)
        part.part, part.more = number, number < len(parts) - 1
        assert part.ByteSize() <= limit
    whole = join_parts([copy(part) for part in parts])
    assert list(whole.decisions) == made
    assert (whole.inbox_seq, whole.now_ms, whole.epoch, whole.more) == (7, 1_700_000_000_000, 3, False)


def copy(commit: log_pb2.Commit) -> log_pb2.Commit:
    return log_pb2.Commit.FromString(commit.SerializeToString())


def test_a_fact_too_large_for_any_part() -> None:
    commit = log_pb2.Commit()
    commit.decisions.add(command="x").facts.add().node_removed.node_id = "n" * 1_000
    with pytest.raises(ValueError, match="1007 bytes"):
        list(split_commit(commit, 600))
