"""What cannot be read: a pod whose amounts are unknown waits, a quota is refused. Both are told."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import Namespace, Pod
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, RecordEvent, Release, SetCondition, Submit
from remuda_kubernetes.shim.resume import ApplicationRow, AskRow, KeptState
from remuda_kubernetes.shim.shim import Shim


def of(effects: list[Any], *kinds: type) -> list[Any]:
    return [one for one in effects if isinstance(one, kinds)]


def sized(memory: str, name: str = "p", node: str = "") -> Pod:
    return pod(name, app="app", node=node, memory=memory)


def test_a_pod_whose_amounts_cannot_be_read_is_not_asked_for() -> None:
    it = shim("n1")
    it.pod_changed(sized("10E"))
    effects = it.take()
    assert not of(effects, Ask)
    (condition,) = of(effects, SetCondition)
    assert condition.reason == "Unschedulable" and condition.message.startswith("memory='10E': expected")
    assert "FailedScheduling" in [one.reason for one in of(effects, RecordEvent)]
    it.pod_changed(sized("10E"))
    assert not it.take(), "it is told once"
    it.pod_changed(sized("1Ei"))
    (asked,) = of(it.take(), Ask)
    assert {name: one.value for name, one in asked.ask.resourceAsk.resources.items()} == {"memory": 2**60, "pods": 1}


def test_an_ask_is_withdrawn_when_its_amounts_cannot_be_read_any_more() -> None:
    it = shim("n1")
    it.pod_changed(sized("1Gi"))
    assert of(it.take(), Ask)
    it.pod_changed(sized("10E"))
    effects = it.take()
    (withdrawn,) = of(effects, Release)
    assert (withdrawn.release.allocationKey, withdrawn.release.message[:13]) == ("uid-p", "memory='10E':")
    assert not of(effects, Ask) and of(effects, SetCondition)


def test_an_ask_of_an_earlier_process_is_withdrawn() -> None:
    """It may be one of a version that took such a pod for one without amounts."""
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.pod_changed(sized("10E"))
    asked = AskRow(application="default.app", key="uid-p", resource={"pods": 1}, priority=0, tags={})
    it.resume(KeptState(applications=[ApplicationRow("default.app", "Running")], asks=[asked]))
    effects = it.take()
    assert [one.release.allocationKey for one in of(effects, Release)] == ["uid-p"]
    assert not of(effects, Ask)


def namespace(version: int, **annotations: str) -> Namespace:
    metadata = {"name": "default", "uid": "ns", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": {**metadata, "annotations": annotations}}, Namespace)


def test_a_quota_that_cannot_be_read_is_refused_and_the_one_before_stays() -> None:
    """For applications that come later, too."""
    it = shim("n1")
    quota, guaranteed = json.dumps({"memory": "1Ei"}), json.dumps({"memory": "1Gi"})
    it.namespace_changed(namespace(1, **{names.NAMESPACE_QUOTA: quota, names.NAMESPACE_MAX_APPS: "3"}))
    it.pod_changed(sized("1Gi"))
    it.take()
    wrong = {names.NAMESPACE_QUOTA: json.dumps({"memory": "10E"}), names.NAMESPACE_MAX_APPS: "few"}
    it.namespace_changed(namespace(2, **wrong))
    effects = it.take()
    assert [(one.kind, one.reason) for one in of(effects, RecordEvent)] == [("Namespace", "InvalidQuota")] * 2
    assert not of(effects, Submit), "nothing has changed"
    it.pod_changed(pod("q", app="other"))
    (submitted,) = of(it.take(), Submit)
    tags = submitted.application.tags
    assert json.loads(tags["namespace.resourcequota"]) == {"resources": {"memory": {"value": 2**60}}}
    assert tags[names.TAG_MAX_APPS] == "3"
    it.namespace_changed(namespace(3, **wrong, **{names.NAMESPACE_GUARANTEED: guaranteed}))
    assert all("namespace.resourcequota" in one.application.tags for one in of(it.take(), Submit))
    it.namespace_changed(namespace(4))
    it.pod_changed(pod("r", app="third"))
    assert not any("namespace.resourcequota" in one.application.tags for one in of(it.take(), Submit))


def test_pods_that_run_are_left_alone() -> None:
    it = shim("n1")
    it.pod_changed(sized("1Gi", node="n1"))
    it.take()
    it.pod_changed(sized("10E", node="n1"))
    assert not of(it.take(), Release, SetCondition)
