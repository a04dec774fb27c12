"""Applies commits of the log to a core, for restarts, standbys, queries and audits."""

from __future__ import annotations

from remuda_proto.remuda.v1 import log_pb2

from ..core import Core
from ..wire.facts import read_fact


def apply(core: Core, commit: log_pb2.Commit) -> int:
    """Apply a commit, read as `wire.schema.Commit`, to the core. Returns the number of its facts."""
    # A list is faster than a generator, and slicing a protobuf list faster than iterating over it.
    facts = [read_fact(fact) for decision in commit.decisions for fact in decision.facts[:]]
    core.replay(facts, commit.now_ms)
    note_position(core, commit)
    return len(facts)


def note_position(core: Core, commit: log_pb2.Commit) -> None:
    """Which messages of the inbox the commit has read, and which request was the last."""
    state = core.state
    for decision in reversed(commit.decisions):
        if decision.request_seq:
            state.request_seq, state.request_part = decision.request_seq, decision.request_part
            break
    state.inbox_seq = commit.inbox_seq
