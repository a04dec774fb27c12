"""Metrics of `/ws/v1`: exact, a series for each queue, and no series without end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remuda_web import limits
from remuda_web.ws_v1.metrics import Families, add_allocations, add_applications, add_nodes, add_queues

NOTHING: dict[str, int] = {}
STATES = ("allocated", "pending", "preempting", "guaranteed", "max")


def queue(path: str, amount: int = 1, *, managed: bool = False) -> dict[str, Any]:
    return {"path": path, "managed": managed, **{name: {"vcore": amount} for name in STATES}}


def of_queues(rows: Sequence[dict[str, Any]]) -> list[str]:
    families = Families()
    add_queues(families, NOTHING, rows)
    return families.text().decode().splitlines()


def test_applications_of_queues_without_metrics_have_none() -> None:
    """Placement rules make queues with the names that users give."""
    families, most = Families(), limits.METRICS_OF_QUEUES
    paths = [f"root.q{number}" for number in range(most + 5)]
    shown = add_queues(families, NOTHING, [queue(path) for path in paths])
    add_applications(families, [{"queue": path, "state": "Running"} for path in paths], [], shown)
    lines = families.text().decode().splitlines()
    assert len(shown) == most
    assert sum("_queue_app{" in line and "yunikorn_queue_app" not in line for line in lines) == most
    assert sum("yunikorn_queue_app{" in line for line in lines) == most
    assert f'yunikorn_scheduler_application_total{{state="running"}} {most + 5}' in lines


@given(st.integers(0, 2**63 - 1))
def test_numbers_are_exact(number: int) -> None:
    families = Families()
    add_allocations(families, number, 0)
    add_queues(families, NOTHING, [queue("root.a", number)])
    lines = families.text().decode().splitlines()
    attempts = "yunikorn_scheduler_container_allocation_attempt_total"
    assert f'{attempts}{{state="allocated"}} {number}' in lines
    assert f'yunikorn_root_a_queue_resource{{resource="vcore",state="allocated"}} {number}' in lines


def test_queues_whose_names_are_written_alike_are_not_added_up() -> None:
    alike = ["root.a-b", "root.a_b", "root.a.b"]
    lines = of_queues([queue(path, number) for number, path in enumerate(alike, 1)])
    for number, path in enumerate(alike, 1):
        labels = f'queue="{path}",resource="vcore",state="pending"'
        assert f"yunikorn_root_a_b_queue_resource{{{labels}}} {number}" in lines
        assert f"yunikorn_queue_resource{{{labels}}} {number}" in lines
    families = Families()
    rows = [{"queue": path, "state": "Running"} for path in (*alike, alike[0])]
    add_applications(families, rows, [], frozenset(alike))
    lines = families.text().decode().splitlines()
    assert 'yunikorn_root_a_b_queue_app{queue="root.a-b",state="running"} 2' in lines
    assert 'yunikorn_root_a_b_queue_app{queue="root.a.b",state="running"} 1' in lines


def test_queues_of_the_same_last_name_are_not_added_up() -> None:
    lines = of_queues([queue("root.x.a", 2, managed=True), queue("root.y.a", 3, managed=True)])
    assert 'yunikorn_a_queue_resource{queue="root.x.a",resource="vcore",state="max"} 2' in lines
    assert 'yunikorn_a_queue_resource{queue="root.y.a",resource="vcore",state="max"} 3' in lines
    assert 'yunikorn_a_queue_resource{resource="vcore",state="max"} 2' in of_queues(
        [queue("root.x.a", 2, managed=True)]
    )


def test_resources_whose_names_are_written_alike_are_not_added_up() -> None:
    families = Families()
    amounts = {"x.y/gpu": 10, "x_y_gpu": 10}
    used = {"x.y/gpu": 1, "x_y_gpu": 10}
    add_nodes(families, [{"status": "Active", "capacity": amounts, "allocated": used}])
    lines = families.text().decode().splitlines()
    family = "yunikorn_scheduler_x_y_gpu_node_usage_total"
    assert f'{family}{{resource="x.y/gpu",range="[0,10%]"}} 1' in lines
    assert f'{family}{{resource="x_y_gpu",range="[0,10%]"}} 0' in lines


def test_dashboards_of_later_versions_find_queues_by_their_label() -> None:
    """The family has named queues in a label since 1.5. Rejected applications are in no queue."""
    families = Families()
    shown = add_queues(families, {"memory": 300}, [queue("root", 7), queue("root.spark", 5)])
    applications = [{"queue": "root.spark", "state": state} for state in ("Running", "Starting", "New", "Completed")]
    add_applications(families, applications, [{"queue": "root.spark"}], shown)
    lines = families.text().decode().splitlines()
    assert 'yunikorn_queue_resource{queue="root.spark",resource="vcore",state="pending"} 5' in lines
    assert 'yunikorn_queue_resource{queue="root",resource="memory",state="max"} 300' in lines
    assert 'yunikorn_root_spark_queue_resource{resource="vcore",state="pending"} 5' in lines
    assert [line for line in lines if line.startswith("yunikorn_queue_app")] == [
        'yunikorn_queue_app{queue="root.spark",state="accepted"} 1',
        'yunikorn_queue_app{queue="root.spark",state="completed"} 1',
        'yunikorn_queue_app{queue="root.spark",state="running"} 2',
        'yunikorn_queue_app{state="rejected"} 1',
    ]
    assert lines.count("# TYPE yunikorn_queue_app gauge") == 1
