"""Asks of runs on shared hosts."""

from __future__ import annotations

from remuda_peloton.sharing import Wish
from remuda_peloton.wire.guests import ask_of
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

RUN = hosts_pb2.SharedRun(task_id="t", run_id="t-1", resource=(1.0, 0.0, 0.0, 0.0), preemptible=True, priority=3)


def test_an_ask_for_a_run_that_is_to_be_placed_is_bound_to_no_node() -> None:
    ask = ask_of(Wish("k", "a"), RUN)
    assert not ask.tags and ask.preemptionPolicy.allowPreemptSelf and ask.priority == 3


def test_an_ask_for_a_run_on_its_host_is_bound_and_may_be_preempted() -> None:
    """As before it was lost: what is bound to a node is not preempted by itself."""
    assert dict(ask_of(Wish("k", "a", "n1"), RUN).tags) == {
        "si/requiredNode": "n1", "remuda/boundPreemptible": "true"
    }  # fmt: skip
