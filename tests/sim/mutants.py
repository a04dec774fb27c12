"""Bugs, each put into the running code on purpose: what the simulation is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from remuda_bus.log import Chain
from remuda_core import evolve, facts, snapshot
from remuda_core.shell.leader import Leader
from remuda_core.state import State
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy.forward import Forwarder
from remuda_sdk.session import Session

Mutant = Callable[[pytest.MonkeyPatch], None]


def no_chain_check(patch: pytest.MonkeyPatch) -> None:
    """Whatever is in the log is in force."""

    def hangs(chain: Chain, commit: log_pb2.Commit) -> bool:
        return True

    patch.setattr(Chain, "_hangs", hangs)


def evolve_that_judges(patch: pytest.MonkeyPatch) -> None:
    """An allocation on a node that is drained is not released."""
    release = evolve.BY_FACT[facts.AllocationReleased]

    def judge(state: State, fact: Any) -> None:
        if not state.partitions[fact.partition].allocations[fact.uuid].node.draining:
            release(state, fact)

    by_fact: dict[Any, Any] = evolve.BY_FACT
    patch.setitem(by_fact, facts.AllocationReleased, judge)


def acknowledged_before_it_is_appended(patch: pytest.MonkeyPatch) -> None:
    """A request is deleted while its commands are on their way to the inbox."""
    flush = Forwarder._flush

    async def hasty(forwarder: Forwarder) -> None:
        forwarder._done_seq = forwarder._taken_seq
        await flush(forwarder)

    patch.setattr(Forwarder, "_flush", hasty)


def timers_lost_on_restart(patch: pytest.MonkeyPatch) -> None:
    """A snapshot brings back everything but the alarms."""
    restorers: dict[Any, Any] = snapshot.RESTORERS
    patch.setitem(restorers, snapshot.AlarmRecord, lambda state, record: None)


def delivered_twice_handled_twice(patch: pytest.MonkeyPatch) -> None:
    """The core does not look whether it has handled a request."""
    answer = Leader._answer

    def credulous(leader: Leader, *arguments: Any) -> None:
        state = leader.core.state
        before = state.request_seq, state.request_part
        state.request_seq = state.request_part = 0
        answer(leader, *arguments)
        state.request_seq, state.request_part = max(before, (state.request_seq, state.request_part))

    patch.setattr(Leader, "_answer", credulous)


def told_twice_heard_twice(patch: pytest.MonkeyPatch) -> None:
    """The SDK takes every callback for a new one."""
    patch.setattr(Session, "is_new", lambda session, message: True)


MUTANTS: tuple[Mutant, ...] = (
    no_chain_check,
    evolve_that_judges,
    acknowledged_before_it_is_appended,
    timers_lost_on_restart,
    delivered_twice_handled_twice,
    told_twice_heard_twice,
)
