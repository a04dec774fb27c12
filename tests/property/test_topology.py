"""Storms with racks and groups, against the oracle and all invariants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from .storm import played
from .topology_storm import TopologyStorm


@given(seed=st.integers(0, 10**6))
def test_a_storm(seed: int) -> None:
    played(TopologyStorm(seed), seed, 80)
