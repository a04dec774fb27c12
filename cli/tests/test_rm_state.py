"""The books of a resource manager."""

from __future__ import annotations

from typing import Any

from remuda.simulated_rm.rm_state import RmState, percentile
from remuda_proto.si.v1 import si_pb2 as si

SIZE = {"vcore": 1000}


def new(key: str, uuid: str, node: str = "n1") -> si.AllocationResponse:
    resource = si.Resource(resources={name: si.Quantity(value=value) for name, value in SIZE.items()})
    allocation = si.Allocation(
        allocationKey=key, UUID=uuid, nodeID=node, applicationID="app", resourcePerAlloc=resource
    )
    return si.AllocationResponse(new=[allocation])


def released(uuid: str) -> si.AllocationResponse:
    return si.AllocationResponse(released=[si.AllocationRelease(UUID=uuid, terminationType=si.STOPPED_BY_RM)])


def test_an_ask_is_placed_and_released() -> None:
    record: list[dict[str, Any]] = []
    rm_state = RmState(record.append)
    rm_state.record_ask("k", "app", SIZE, 1.0)
    (running,) = rm_state.handle_allocations(new("k", "u"), 1.5)
    assert (running.node, running.ask.key) == ("n1", "k")
    assert (rm_state.placed, dict(rm_state.used), list(rm_state.latencies_ms), rm_state.seconds) == (
        1,
        SIZE,
        [500.0],
        0.5,
    )
    rm_state.handle_allocations(released("u"), 2.0)
    assert (rm_state.released, rm_state.used["vcore"], rm_state.running, rm_state.faults) == (1, 0, {}, [])
    assert [entry["kind"] for entry in record] == ["allocated", "released"]
    assert record[0]["resource"] == SIZE


def test_an_allocation_nobody_asked_for_or_a_second_one_is_a_fault() -> None:
    rm_state = RmState()
    rm_state.record_ask("k", "app", SIZE, 0.0)
    rm_state.handle_allocations(new("k", "u"), 0.0)
    assert rm_state.handle_allocations(new("k", "u2"), 0.0) == []
    assert rm_state.handle_allocations(new("other", "u3"), 0.0) == []
    assert len(rm_state.faults) == 2
    assert rm_state.placed == 1


def test_an_allocation_that_crossed_its_withdrawal_is_taken_and_marked() -> None:
    rm_state = RmState()
    rm_state.record_ask("k", "app", SIZE, 0.0)
    rm_state.record_withdrawal("k", "no room")
    (running,) = rm_state.handle_allocations(new("k", "u"), 1.0)
    assert rm_state.is_withdrawn(running.ask.key)
    assert (rm_state.placed, rm_state.crossed, rm_state.faults) == (1, 1, [])
    rm_state.handle_allocations(released("u"), 1.0)
    assert not rm_state.running


def test_a_rejected_ask_waits_no_more() -> None:
    rm_state = RmState()
    rm_state.record_ask("k", "app", SIZE, 0.0)
    refused = si.RejectedAllocationAsk(allocationKey="k", applicationID="app", reason="no such application")
    rm_state.handle_allocations(si.AllocationResponse(rejected=[refused]), 0.0)
    assert (rm_state.waiting, rm_state.rejected_asks, dict(rm_state.rejected)) == ({}, 1, {"no such application": 1})


def test_shares_are_of_the_nodes_that_were_accepted() -> None:
    rm_state = RmState()
    rm_state.record_node("n1", {"vcore": 4000})
    rm_state.record_node("n2", {"vcore": 4000})
    refused = si.RejectedNode(nodeID="n2", reason="it exists")
    rm_state.handle_nodes(si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n1")], rejected=[refused]))
    rm_state.record_ask("k", "app", SIZE, 0.0)
    rm_state.handle_allocations(new("k", "u"), 0.0)
    assert rm_state.shares() == {"vcore": 0.25}
    assert rm_state.rejected_nodes == 1


def test_percentiles() -> None:
    assert percentile([], 99) == 0.0
    assert percentile([5.0], 50) == 5.0
    assert percentile(range(1, 101), 50) == 50
    assert percentile(range(1, 101), 99) == 99
    assert percentile(range(1, 101), 100) == 100
