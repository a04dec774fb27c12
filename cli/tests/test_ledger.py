"""The books of a resource manager."""

from __future__ import annotations

from typing import Any

from remuda.ledger import Ledger, percentile
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
    ledger = Ledger(record.append)
    ledger.asks("k", "app", SIZE, 1.0)
    (running,) = ledger.allocations(new("k", "u"), 1.5)
    assert (running.node, running.ask.key) == ("n1", "k")
    assert (ledger.placed, dict(ledger.used), list(ledger.latencies_ms), ledger.seconds) == (1, SIZE, [500.0], 0.5)
    ledger.allocations(released("u"), 2.0)
    assert (ledger.released, ledger.used["vcore"], ledger.running, ledger.faults) == (1, 0, {}, [])
    assert [entry["kind"] for entry in record] == ["allocated", "released"]
    assert record[0]["resource"] == SIZE


def test_an_allocation_nobody_asked_for_or_a_second_one_is_a_fault() -> None:
    ledger = Ledger()
    ledger.asks("k", "app", SIZE, 0.0)
    ledger.allocations(new("k", "u"), 0.0)
    assert ledger.allocations(new("k", "u2"), 0.0) == []
    assert ledger.allocations(new("other", "u3"), 0.0) == []
    assert len(ledger.faults) == 2
    assert ledger.placed == 1


def test_an_allocation_that_crossed_its_withdrawal_is_taken_and_marked() -> None:
    ledger = Ledger()
    ledger.asks("k", "app", SIZE, 0.0)
    ledger.withdraws("k", "no room")
    (running,) = ledger.allocations(new("k", "u"), 1.0)
    assert ledger.withdrawn(running.ask.key)
    assert (ledger.placed, ledger.crossed, ledger.faults) == (1, 1, [])
    ledger.allocations(released("u"), 1.0)
    assert not ledger.running


def test_a_rejected_ask_waits_no_more() -> None:
    ledger = Ledger()
    ledger.asks("k", "app", SIZE, 0.0)
    refused = si.RejectedAllocationAsk(allocationKey="k", applicationID="app", reason="no such application")
    ledger.allocations(si.AllocationResponse(rejected=[refused]), 0.0)
    assert (ledger.waiting, ledger.rejected_asks, dict(ledger.rejected)) == ({}, 1, {"no such application": 1})


def test_shares_are_of_the_nodes_that_were_accepted() -> None:
    ledger = Ledger()
    ledger.reports("n1", {"vcore": 4000})
    ledger.reports("n2", {"vcore": 4000})
    refused = si.RejectedNode(nodeID="n2", reason="it exists")
    ledger.node_states(si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n1")], rejected=[refused]))
    ledger.asks("k", "app", SIZE, 0.0)
    ledger.allocations(new("k", "u"), 0.0)
    assert ledger.shares() == {"vcore": 0.25}
    assert ledger.rejected_nodes == 1


def test_percentiles() -> None:
    assert percentile([], 99) == 0.0
    assert percentile([5.0], 50) == 5.0
    assert percentile(range(1, 101), 50) == 50
    assert percentile(range(1, 101), 99) == 99
    assert percentile(range(1, 101), 100) == 100
