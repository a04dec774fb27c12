"""From the log back into a core: what a restart, a standby, a query and an audit have in common."""

from __future__ import annotations

from remuda_proto.remuda.v1 import log_pb2

from ..core import Core
from ..wire import read_fact


def apply(core: Core, commit: log_pb2.Commit) -> int:
    """Bring the core to the position after the commit. Returns the number of facts."""
    count = 0
    state = core.state
    for decision in commit.decisions:
        core.replay(map(read_fact, decision.facts), commit.now_ms)
        count += len(decision.facts)
        if decision.request_seq:
            state.request_seq, state.request_part = decision.request_seq, decision.request_part
    state.inbox_seq = commit.inbox_seq
    state.now_ms = commit.now_ms
    return count
