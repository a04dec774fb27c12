"""The health check over rows that were read one after the other, while the scheduler works."""

from __future__ import annotations

from typing import Any

from remuda_web.ws_v1.health import Checked, check
from remuda_web.ws_v1.partitions import Place

ROW = {"name": "default", "total": {"vcore": 4}, "allocated": {"vcore": 1}}
NODE: dict[str, Any] = {
    "id": "n1", "capacity": {"vcore": 4}, "occupied": {}, "allocated": {"vcore": 1}, "available": {"vcore": 3},
    "reserved_for": None,
}  # fmt: skip


def reading(applications: tuple[str, ...], allocations: dict[str, str]) -> list[Checked]:
    """`allocations`: UUID -> application."""
    held = [{"uuid": uuid, "application": one, "node": "n1"} for uuid, one in allocations.items()]
    place = Place("rm-1", "default", "default", ROW)
    return [Checked(place, [NODE], [{"id": one} for one in applications], held)]


def failed(found: dict[str, Any]) -> list[str]:
    return [one["DiagnosisMessage"] for one in found["HealthChecks"] if not one["Succeeded"]]


def test_an_orphan_of_both_readings_is_one() -> None:
    orphan = reading(("a",), {"u1": "a", "u2": "gone"})
    assert failed(check(orphan)) == ['Orphan allocations: ["u2"]']
    assert failed(check(orphan, orphan)) == ['Orphan allocations: ["u2"]']


def test_an_application_that_came_between_two_reads_is_no_fault() -> None:
    """The allocation was read after the applications."""
    torn, later = reading(("a",), {"u1": "a", "u2": "b"}), reading(("a", "b"), {"u1": "a", "u2": "b", "u3": "c"})
    assert not check(torn)["Healthy"]
    assert check(later, torn)["Healthy"]
