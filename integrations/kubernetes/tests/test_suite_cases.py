"""The tests of the suite show each case of YuniKorn's end-to-end suites: their docstrings name the cases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrations.kubernetes.tests.control_plane.existing import ExistingPlane
from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.suite.modes import BY_GATE, Mode, reason
from integrations.kubernetes.tests.suite.test_user_info import WORKLOADS, version_of
from remuda_kubernetes.api.objects import Condition
from remuda_kubernetes.shim import names

SUITE = Path(__file__).parent / "suite"
NAMED = re.compile(r"([a-z_-]+) (\d+(?:(?:, | to )\d+)*)")
# The number of cases of each suite.
COUNTS = {
    "admission_controller": 19, "basic_scheduling": 5, "bin_packing": 1, "configmap": 8, "foreign_pod": 1,
    "gang_scheduling": 12, "node_resources": 1, "persistent_volume": 2, "pod_resource_scaling": 3, "predicates": 18,
    "preemption": 5, "priority_scheduling": 4, "queue_quota_mgmt": 6, "quota-preemption": 9, "recovery_and_restart": 4,
    "resource_fairness": 1, "restart_changed_config": 1, "simple_preemptor": 2, "spark_jobs_scheduling": 1,
    "user_group_limit": 17,
}  # fmt: skip
# Kubernetes 1.20 cannot change the size of a running pod; test_newer_pods.py has recorded ones.
LEFT_OUT = {("pod_resource_scaling", number) for number in range(1, 4)}


def numbers(text: str) -> Iterator[int]:
    """Of `1, 3 to 5`."""
    for part in re.split(", ", text):
        first, _, last = part.partition(" to ")
        yield from range(int(first), int(last or first) + 1)


def shown() -> set[tuple[str, int]]:
    """The suites and the numbers of the cases in the docstrings of all tests."""
    first_lines = [
        (ast.get_docstring(test) or "").partition("\n")[0]
        for file in SUITE.glob("test_*.py")
        for test in ast.parse(file.read_text()).body
        if isinstance(test, ast.AsyncFunctionDef) and test.name.startswith("test_")
    ]
    return {
        (suite, n)
        for line in first_lines
        for suite, text in NAMED.findall(line)
        if suite in COUNTS
        for n in numbers(text)
    }


def test_each_case_is_shown_or_left_out() -> None:
    assert shown() | LEFT_OUT == {(suite, n) for suite, count in COUNTS.items() for n in range(1, count + 1)}
    assert not shown() & LEFT_OUT


@pytest.fixture
def gates(tmp_path: Path) -> Mode:
    """Plugin mode on a control plane that knows gates."""
    plane = ExistingPlane(tmp_path / "none", tmp_path)
    plane.minor = 36
    return Mode(plane, is_plugin=True)


def test_only_pods_of_applications_that_wait_for_a_node_have_the_gate(gates: Mode) -> None:
    """An API server refuses a pod that has both a gate and a node, and a binding of a pod with a gate."""
    gate = [{"name": names.GATE}]
    assert gates.pod("p")["spec"]["schedulingGates"] == gate
    assert gates.pod("p", app="a", cpu="1")["spec"]["schedulingGates"] == gate
    for of in ({"app": ""}, {"nodeName": "n1"}, {"gated": False}):
        assert "schedulingGates" not in gates.pod("p", **of)["spec"]
    assert "schedulingGates" not in Mode(gates.plane).pod("p")["spec"]


def test_condition_of_the_gate_is_no_reason_of_the_scheduler() -> None:
    held = pod("p")
    held.status.conditions.append(condition(BY_GATE, "Scheduling is blocked"))
    assert reason(held) == ""
    held.status.conditions[:] = [condition("SchedulingSkipped", "root.a is full")]
    assert reason(held) == "root.a is full"


def condition(why: str, message: str) -> Condition:
    return Condition(type="PodScheduled", status="False", reason=why, message=message)


@pytest.mark.parametrize("minor", [20, 21, 36])
def test_workloads_are_asked_for_in_the_groups_that_serve_them(minor: int) -> None:
    found = {kind: version_of(kind, minor) for kind in WORKLOADS}
    assert {found[kind] for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")} == {"apps/v1"}
    assert (found["Job"], found["CronJob"]) == ("batch/v1", "batch/v1beta1" if minor == 20 else "batch/v1")
