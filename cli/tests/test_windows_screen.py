"""`remuda windows` and the status of nodes: what a window is, when it comes, and what still runs there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from remuda.show.listings import _node, _window
from remuda.terminal.units import time_of
from remuda_operations.queries.rows import Node, NodeDeparture, Window

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (
            {"kind": "maintenance", "from_ms": HOUR_MS, "until_ms": 2 * HOUR_MS, "nodes": 8, "running": 41},
            ["maintenance", "ahead", time_of(HOUR_MS), time_of(2 * HOUR_MS), "8", "41"],
        ),
        (
            {"kind": "kept", "queue": "root.eod", "open": True, "weekly": True, "from_ms": 1, "until_ms": HOUR_MS},
            ["kept for root.eod", "open, weekly", time_of(1), time_of(HOUR_MS), "0", "0"],
        ),
        (
            {"kind": "settings", "queues": ["root.a", "root.b"]},
            ["settings of root.a, root.b", "over", "", "", "", ""],
        ),
    ],
)  # fmt: skip
def test_a_row_for_each_window(row: dict[str, Any], cells: list[str]) -> None:
    assert _window(msgspec.to_builtins(Window(name="w", **row))) == ["w", *cells]


@pytest.mark.parametrize(
    ("node", "status"),
    [
        (Node(id="n1", status="Draining", windows=["disks"]), "Draining, in window disks"),
        (
            Node(id="n1", status="Schedulable", leaving=NodeDeparture(HOUR_MS, window="disks")),
            f"Schedulable, drained from {time_of(HOUR_MS)} on, by window disks",
        ),
    ],
)
def test_the_status_of_a_node_names_its_windows(node: Node, status: str) -> None:
    assert _node(msgspec.to_builtins(node))[1] == status
