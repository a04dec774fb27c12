"""From the log back into a core: what a restart, a standby, a query and an audit have in common."""

from __future__ import annotations

from remuda_proto.remuda.v1 import log_pb2

from ..core import Core
from ..wire.facts import read_fact


def apply(core: Core, commit: log_pb2.Commit) -> int:
    """Bring the core to the position after the commit, a `schema.Commit`. Returns the number of facts."""
    # Lists are quicker than what makes one after the other, and slices than what they are of.
    facts = [read_fact(fact) for decision in commit.decisions for fact in decision.facts[:]]
    core.replay(facts, commit.now_ms)
    state = core.state
    for decision in reversed(commit.decisions):
        if decision.request_seq:
            state.request_seq, state.request_part = decision.request_seq, decision.request_part
            break
    state.inbox_seq = commit.inbox_seq
    return len(facts)
