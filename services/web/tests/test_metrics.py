"""Metrics of `/ws/v1`: a tenant cannot make series without end."""

from __future__ import annotations

from typing import Any

from remuda_web import limits
from remuda_web.ws_v1.metrics import Families, add_applications, add_queues

NOTHING: dict[str, int] = {}


def queue(path: str) -> dict[str, Any]:
    amounts = {name: {"vcore": 1} for name in ("allocated", "pending", "preempting", "guaranteed", "max")}
    return {"path": path, "managed": False, **amounts}


def test_applications_of_queues_without_metrics_have_none() -> None:
    """Placement rules make queues with the names that users give."""
    families, most = Families(), limits.METRICS_OF_QUEUES
    paths = [f"root.q{number}" for number in range(most + 5)]
    shown = add_queues(families, NOTHING, [queue(path) for path in paths])
    add_applications(families, [{"queue": path, "state": "Running"} for path in paths], [], shown)
    lines = families.text().decode().splitlines()
    assert len(shown) == most
    assert sum("_queue_app{" in line for line in lines) == most
    assert f'yunikorn_scheduler_application_total{{state="running"}} {most + 5}' in lines
