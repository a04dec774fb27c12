"""Victims of preemption keep to disruption budgets."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import DisruptionBudget
from remuda_kubernetes.shim.effects import DeletePod, Evict, RecordEvent
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si


def budget(name: str, allowed: int, selector: Any) -> DisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed},
        },
        DisruptionBudget,
    )  # fmt: skip


def of(budget_name: str) -> dict[str, Any]:
    return {"matchLabels": {budget_name: "yes"}}


def running(pods: dict[str, tuple[str, ...]], budgets: dict[str, int]) -> Shim:
    """Pods on n1, each selected by some budgets, and how many disruptions each budget allows."""
    it = shim("n1")
    for name, allowed in budgets.items():
        it.budgets.changed(budget(name, allowed, of(name)))
    for name, selected in pods.items():
        it.pod_changed(pod(name, app="app", node="n1", cpu="1", labels=dict.fromkeys(selected, "yes")))
    it.take()
    return it


def spared(it: Shim, *names: str) -> list[str]:
    found = it.budgets.spared("uid-asker", "n1", [f"uid-{name}" for name in names])
    return [uid.removeprefix("uid-") for uid in found]


def preempt(it: Shim, name: str) -> None:
    uuid = it.cache.pods[f"uid-{name}"].uuid
    it.allocation(
        si.AllocationResponse(
            released=[
                si.AllocationRelease(
                    applicationID="default.app", UUID=uuid, allocationKey=f"uid-{name}",
                    terminationType=si.PREEMPTED_BY_SCHEDULER,
                )
            ]
        )
    )  # fmt: skip


def test_victims_beyond_what_a_budget_allows_are_spared_and_so_are_others_like_them() -> None:
    it = running({"a": ("x",), "b": ("x",), "c": ("x",), "d": ()}, {"x": 1})
    assert spared(it, "a") == []
    assert spared(it, "d") == []
    assert spared(it, "a", "b") == ["b", "c"]
    it.budgets.changed(budget("x", 0, of("x")))
    assert spared(it, "a", "d") == ["a", "b", "c"]
    it.budgets.gone(budget("x", 0, of("x")))
    assert spared(it, "a", "b") == []


def test_others_on_the_nodes_of_all_victims_are_spared() -> None:
    """Those of a group are on several nodes."""
    it = running({"a": ("x",), "b": ("x",)}, {"x": 0})
    it.node_changed(node("n2"))
    for name in "cd":
        it.pod_changed(pod(name, app="app", node="n2", cpu="1", labels={"x": "yes"}))
    assert spared(it, "a", "c") == ["a", "c", "b", "d"]


def test_a_pod_of_two_budgets_cannot_be_evicted() -> None:
    it = running({"a": ("x", "y")}, {"x": 9, "y": 9})
    assert spared(it, "a") == ["a"]


def test_a_budget_without_selector_selects_nothing_and_an_empty_one_everything() -> None:
    it = running({"a": ()}, {})
    it.budgets.changed(budget("none", 0, None))
    assert spared(it, "a") == []
    it.budgets.changed(budget("all", 0, {}))
    assert spared(it, "a") == ["a"]


def test_an_empty_selector_selects_nothing_before_1_21() -> None:
    it = running({"a": ("x",)}, {})
    it.budgets.empty_selects_all = False
    it.budgets.changed(budget("one", 0, of("x")))
    assert spared(it, "a") == ["a"]
    it.budgets.changed(budget("one", 0, {}))
    assert spared(it, "a") == []


def test_evictions_that_were_decided_count_until_the_api_server_has_counted_them() -> None:
    it = running({"a": ("x",), "b": ("x",)}, {"x": 1})
    preempt(it, "a")
    assert [effect.pod.name for effect in it.take() if isinstance(effect, Evict)] == ["a"]
    assert spared(it, "b") == ["b"]
    it.pod_changed(pod("a", app="app", node="n1", cpu="1", labels={"x": "yes"}, deleted=True))
    assert spared(it, "b") == []


def test_an_eviction_that_is_refused_is_told_and_tried_again() -> None:
    it = running({"a": ("x",)}, {"x": 1})
    preempt(it, "a")
    it.take()
    it.eviction_refused("uid-a", "Cannot evict pod as it would violate the pod's disruption budget.")
    effects = it.take()
    assert [one.reason for one in effects if isinstance(one, RecordEvent) and one.is_warning] == ["PreemptionRefused"]
    assert not [one for one in effects if isinstance(one, Evict | DeletePod)]
    for _ in range(limits.DELETION_SWEEPS):
        it.sweep()
    assert [effect.pod.name for effect in it.take() if isinstance(effect, Evict)] == ["a"]


def test_with_the_policy_last_a_budget_is_violated_where_nothing_else_was_found() -> None:
    it = running({"a": ("x",)}, {"x": 0})
    it.budgets.policy = "last"
    assert spared(it, "a") == ["a"]
    it.cache.sweeps += limits.SPARED_SWEEPS
    assert spared(it, "a") == []
    preempt(it, "a")
    it.take()
    it.eviction_refused("uid-a", "Cannot evict pod as it would violate the pod's disruption budget.")
    assert [effect.pod.name for effect in it.take() if isinstance(effect, DeletePod)] == ["a"]


NAMES = ("x", "y", "z")


@given(
    st.lists(st.sampled_from(((), *((name,) for name in NAMES), ("x", "y"))), min_size=1, max_size=8),
    st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES}),
    st.data(),
)
def test_law_what_is_not_spared_keeps_to_all_budgets_and_no_more_is_spared_than_that_takes(
    selected: list[tuple[str, ...]], budgets: dict[str, int], data: st.DataObject
) -> None:
    pods = {f"p{number}": of_pod for number, of_pod in enumerate(selected)}
    victims = data.draw(st.lists(st.sampled_from(sorted(pods)), min_size=1, unique=True))
    found = spared(running(pods, budgets), *victims)
    going = [name for name in victims if name not in found]
    used = {budget: sum(budget in pods[name] for name in going) for budget in NAMES}
    assert all(used[name] <= budgets[name] for name in NAMES)
    assert not any(len(pods[name]) > 1 for name in going)
    for name in found:
        assert len(pods[name]) > 1 or used[pods[name][0]] == budgets[pods[name][0]], "it could have gone, too"
    assert bool(found) == any(name in found for name in victims), "others are spared with a victim only"
