"""Draining queues: since when, what still runs there and whose, and who administers them."""

from __future__ import annotations

import pytest
from rich.console import Console

from remuda.show.queues import draining_table as table
from remuda.show.queues import lasting

HOUR_MS = 3_600_000


def test_a_row_for_each_queue() -> None:
    first = [{"id": "app-1", "user": "bob", "state": "Running", "allocated": {"vcore": 2_000}}]
    row = {
        "partition": "default", "path": "root.p.b", "draining_since_ms": 0, "applications": 12,
        "allocated": {"vcore": 2_000}, "draining": {"applications": first, "admin_acls": ["bob", "carl ops"]},
    }  # fmt: skip
    parent = {**row, "partition": "gpu", "path": "root.p", "applications": 0, "allocated": {}}
    parent["draining"] = {"applications": [], "admin_acls": []}
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table([row, parent], 3 * HOUR_MS + 300_000))
    text = " ".join(console.export_text().split())
    assert "3 h 5 min" in text and "app-1 of bob" in text and "more" in text
    assert "bob; carl ops" in text and "gpu: root.p" in text and "vcore 2" in text


@pytest.mark.parametrize(
    ("ms", "shown"), [(0, "0 min"), (-5, "0 min"), (HOUR_MS, "1 h 0 min"), (51 * HOUR_MS, "2 d 3 h")]
)
def test_durations(ms: float, shown: str) -> None:
    assert lasting(ms) == shown
