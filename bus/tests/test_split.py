"""The parts of a split request hold every element once, in order, within the limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus.streams.split import split
from remuda_proto.si.v1 import si_pb2 as si

names = st.lists(st.text("abc", max_size=40), max_size=30)


@given(names, names, names, names, st.integers(250, 2_000))
def test_an_allocation_request(
    asks: list[str], releases: list[str], ask_releases: list[str], allocations: list[str], limit: int
) -> None:
    request = si.AllocationRequest(rmID="rm-1")
    for name in asks:
        request.asks.add(allocationKey=name, tags={"k": name})
    for name in releases:
        request.releases.allocationsToRelease.add(UUID=name)
    for name in ask_releases:
        request.releases.allocationAsksToRelease.add(allocationKey=name)
    for name in allocations:
        request.allocations.add(UUID=name)
    parts = split(request, limit)
    whole = si.AllocationRequest()
    for part in parts:
        assert part.rmID == "rm-1"
        assert len(parts) == 1 or part.ByteSize() <= limit
        whole.asks.extend(part.asks)
        whole.allocations.extend(part.allocations)
        whole.releases.allocationsToRelease.extend(part.releases.allocationsToRelease)
        whole.releases.allocationAsksToRelease.extend(part.releases.allocationAsksToRelease)
    assert list(whole.asks) == list(request.asks)
    assert list(whole.allocations) == list(request.allocations)
    assert list(whole.releases.allocationsToRelease) == list(request.releases.allocationsToRelease)
    assert list(whole.releases.allocationAsksToRelease) == list(request.releases.allocationAsksToRelease)
    kinds = [kind for part in parts for kind in kinds_of(part)]
    assert len(parts) == 1 or kinds == sorted(kinds)


def kinds_of(part: si.AllocationRequest) -> list[int]:
    """In the order in which a request is handled."""
    releases = part.releases
    found = (part.allocations, part.asks, releases.allocationsToRelease, releases.allocationAsksToRelease)
    return [kind for kind, elements in enumerate(found) if elements]


@given(names, names, st.integers(100, 500))
def test_an_application_request(new: list[str], remove: list[str], limit: int) -> None:
    request = si.ApplicationRequest(rmID="rm-1")
    for name in new:
        request.new.add(applicationID=name)
    for name in remove:
        request.remove.add(applicationID=name)
    parts = split(request, limit)
    assert [app.applicationID for part in parts for app in part.new] == new
    assert [app.applicationID for part in parts for app in part.remove] == remove


def test_small_requests_are_not_split() -> None:
    request = si.NodeRequest(rmID="rm-1")
    assert split(request, 1_000) == [request]


def test_many_nodes() -> None:
    request = si.NodeRequest(rmID="rm-1")
    for number in range(1_000):
        request.nodes.add(nodeID=f"node-{number}", attributes={"rack": "r" * 50})
    parts = split(request, 10_000)
    assert 8 < len(parts) < 20
    assert [node.nodeID for part in parts for node in part.nodes] == [f"node-{number}" for number in range(1_000)]


def test_one_element_too_large_is_named() -> None:
    request = si.AllocationRequest(rmID="rm-1")
    request.asks.add(allocationKey="small")
    request.asks.add(allocationKey="x" * 5_000)
    with pytest.raises(ValueError, match=r"AllocationRequest\.asks\[1\]: 5003 bytes"):
        split(request, 1_000)
