"""The decisions of a commit as values: what was asked, and what was decided about it. They are read from the commit, or
come from those who decide it again, where both are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from remuda_bus.bus import Message
from remuda_core.commands import Command
from remuda_core.facts import Fact
from remuda_core.shell.deciding import UNREADABLE
from remuda_core.wire.codec import CommitCodec
from remuda_core.wire.facts import read_fact
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2


class Decided(NamedTuple):
    """`command`: the name of the request, or of a command of the core itself. `asked`: the commands of the request;
    None: the archive does not have it. Empty: there is none, or it cannot be parsed."""

    command: str
    asked: Sequence[Command] | None
    facts: Sequence[Fact]


def read(commit: log_pb2.Commit, inbox: Iterable[Message]) -> list[Decided]:
    """`commit`: read as `wire.schema.Commit`. `inbox`: the messages that it has read."""
    payloads, found = {message.seq: message.payload for message in inbox}, list[Decided]()
    for decision in commit.decisions:
        asked: Sequence[Command] | None = ()
        if decision.inbox_seq and decision.command != UNREADABLE:
            payload = payloads.get(decision.inbox_seq)
            asked = None if payload is None else list(CommitCodec().read(inbox_pb2.Command.FromString(payload))[1])
        # Slicing a protobuf list is faster than iterating over it.
        found.append(Decided(decision.command, asked, [read_fact(one) for one in decision.facts[:]]))
    return found
