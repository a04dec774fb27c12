"""Commits that are too large for one message: split into parts, and joined again. Pure.

Commits may be of any class with the envelope of `log_pb2.Commit`."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_bus import limits
from remuda_proto.remuda.v1 import log_pb2

FACTS = "facts"  # the field of a decision


class FactTooLarge(ValueError):
    """One fact alone is larger than a commit may be. `inbox_seq`: of the command that led to the fact; 0: none did."""

    def __init__(self, inbox_seq: int, size: int, limit: int) -> None:
        super().__init__(f"a fact of {size} bytes does not fit into a commit of {limit} bytes")
        self.inbox_seq = inbox_seq


def join_parts(parts: list[log_pb2.Commit]) -> log_pb2.Commit:
    """The commit that the parts make up. A decision without a command at the start of a further part continues the last
    decision of the part before. Changes the first part."""
    whole = parts[0]
    for part in parts[1:]:
        decisions = part.decisions
        if decisions and not decisions[0].command and whole.decisions:
            whole.decisions[-1].facts.extend(decisions[0].facts)
            whole.decisions.extend(decisions[1:])
        else:
            whole.decisions.extend(decisions)
    whole.more = False
    return whole


def split_commit(commit: log_pb2.Commit, limit: int) -> Iterator[log_pb2.Commit]:
    """Yield the parts of a commit, each at most `limit` bytes once parent and hash are filled in. Yields the commit
    itself when it is not larger. Raises FactTooLarge when one fact alone is."""
    if commit.ByteSize() + limits.CHAIN_ROOM_BYTES <= limit:
        yield commit
        return
    room = limit - limits.CHAIN_ROOM_BYTES
    part, left = _empty(commit), room
    for decision in commit.decisions:
        size = decision.ByteSize() + limits.AROUND_FACT_BYTES
        if left < size <= room:
            yield part
            part, left = _empty(commit), room
        if size <= left:
            part.decisions.append(decision)
            left -= size
            continue
        piece, left = _open(part, decision, first=True), left - _frame(decision)
        for fact in decision.facts:
            size = fact.ByteSize() + limits.AROUND_FACT_BYTES
            if size > left:
                yield part
                part = _empty(commit)
                piece, left = _open(part, decision, first=False), room - limits.AROUND_FACT_BYTES
                if size > left:
                    raise FactTooLarge(decision.inbox_seq, size - limits.AROUND_FACT_BYTES, limit)
            piece.facts.append(fact)
            left -= size
    yield part


def _empty(commit: log_pb2.Commit) -> log_pb2.Commit:
    return type(commit)(inbox_seq=commit.inbox_seq, now_ms=commit.now_ms, epoch=commit.epoch)


def _frame(decision: log_pb2.Decision) -> int:
    """An upper bound of the bytes of a decision without its facts."""
    return limits.AROUND_FACT_BYTES * 5 + sum(
        len(value.encode() if isinstance(value, str) else value)
        for _, value in decision.ListFields()
        if isinstance(value, str | bytes)
    )


def _open(part: log_pb2.Commit, decision: log_pb2.Decision, first: bool) -> log_pb2.Decision:
    if not first:
        return part.decisions.add(inbox_seq=0)
    values = {field.name: value for field, value in decision.ListFields() if field.name != FACTS}
    return part.decisions.add(**values)
