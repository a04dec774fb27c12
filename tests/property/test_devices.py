"""Storms with devices, against the oracle and all invariants."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from .device_storm import DeviceStorm
from .storm import played


@given(seed=st.integers(0, 10**6))
def test_a_storm(seed: int) -> None:
    """Work is measured often, so that prices change."""
    with patch.multiple("remuda_core.cycle.measure", MEASURE_AFTER_ALLOCATIONS=3, MEASURE_EVERY_MS=1_000):
        played(DeviceStorm(seed), seed, 80)
