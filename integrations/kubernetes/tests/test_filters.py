"""Filters of the default scheduler of 1.36 that 1.20 lacks: what was decided (`recorded/decisions`), a model of the
scheduler (`filters.py`), and the front end. All three agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from integrations.kubernetes.tests import manifests
from integrations.kubernetes.tests.filters import BY_CLASS, Cluster, decisions, of_devices
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import Claim, DeviceClass, Namespace, Node, Pod, Volume
from remuda_kubernetes.shim.effects import Ask, SetCondition
from remuda_kubernetes.shim.shim import Shim

Json = dict[str, Any]
FILE = Path(__file__).parent / "recorded" / "decisions" / "1.36.yaml"
RECORDED: list[Json] = YAML(typ="safe").load(FILE)


def node_of(of: Mapping[str, Any]) -> Json:
    made = manifests.node(of["name"], **of.get("labels", {}))
    made["metadata"]["uid"] = of["name"]
    spec = {"unschedulable": of.get("unschedulable", False), "taints": of.get("taints", [])}
    features = {"declaredFeatures": of["declaredFeatures"]} if "declaredFeatures" in of else {}
    allocatable = {**made["status"]["allocatable"], **of.get("allocatable", {})}
    return {**made, "spec": spec, "status": {**made["status"], **features, "allocatable": allocatable}}


def pod_of(of: Mapping[str, Any], name: str = "asked") -> Json:
    name, node = of.get("name", name), of.get("on", "")
    metadata = {"name": name, "uid": f"uid-{name}", "namespace": of.get("namespace", "default")}
    labels = {**of.get("labels", {}), **({} if node else {"applicationId": "app"})}
    spec = {"schedulerName": "remuda", "containers": [], **of.get("spec", {}), "nodeName": node}
    more = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if of.get("leaving") else {}
    return {"metadata": {**metadata, "labels": labels, **more}, "spec": spec, "status": {"phase": "Pending"}}


def cluster_of(case: Mapping[str, Any]) -> Cluster:
    return Cluster(
        [node_of(one) for one in case["nodes"]],
        [pod_of(one) for one in case.get("pods", ())],
        [{"metadata": {"uid": one["name"], **one}} for one in case.get("namespaces", ())],
        [
            {
                "metadata": {"name": one["name"], "uid": one["name"]},
                "spec": {key: one[key] for key in ("extendedResourceName",) if key in one},
            }
            for one in case.get("deviceClasses", ())
        ],
        case.get("claims", {}),
    )


def front_end(pod: Json, cluster: Cluster) -> Shim:
    it = shim()
    for namespace in cluster.namespaces:
        it.namespace_changed(msgspec.convert(namespace, Namespace))
    for node in cluster.nodes:
        it.node_changed(msgspec.convert(node, Node))
    for device_class in cluster.device_classes:
        it.device_class_changed(msgspec.convert(device_class, DeviceClass))
    for name, modes in cluster.claims.items():
        spec = {"volumeName": f"pv-{name}", "accessModes": modes}
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
        it.volumes.volume_changed(msgspec.convert({"metadata": {"name": f"pv-{name}"}, "spec": {}}, Volume))
        it.volumes.claim_changed(msgspec.convert({"metadata": metadata, "spec": spec}, Claim))
    for one in (*cluster.pods, pod):
        it.pod_changed(msgspec.convert(one, Pod))
    return it


def suited(pod: Json, cluster: Cluster) -> set[str]:
    it = front_end(pod, cluster)
    names = [node["metadata"]["name"] for node in cluster.nodes]
    return {name for name in names if not it.predicates.refusal(pod["metadata"]["uid"], name)}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["title"])
def test_recorded_decisions(case: Json) -> None:
    pod, cluster = pod_of({key: case[key] for key in ("labels", "spec") if key in case}), cluster_of(case)
    assert decisions(pod, cluster) == case["decisions"]
    assert suited(pod, cluster) == {name for name, refused_by in case["decisions"].items() if not refused_by}
    if "devices" in case:
        assert of_devices(pod, cluster) == set(case["devices"])
        assert waits_for_devices(pod, cluster) == bool(case["devices"])


def waits_for_devices(pod: Json, cluster: Cluster) -> bool:
    effects = front_end(pod, cluster).take()
    waits = any(isinstance(one, SetCondition) and "dynamic resource allocation" in one.message for one in effects)
    assert waits != any(isinstance(one, Ask) for one in effects)
    return waits


# The law

VALUE = st.sampled_from("ab")
LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from(["web", "db"]), "version": st.sampled_from("12")})
FEATURES = ["RestartAllContainersOnContainerExits", "Another"]
SELECTOR = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, st.sampled_from(["web", "db"])),
    st.builds(
        lambda key, operator: {"matchExpressions": [{"key": key, "operator": operator}]},
        st.sampled_from(["app", "version"]), st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)  # fmt: skip
NAMESPACES = [
    {"name": "default", "labels": {"team": "x"}},
    {"name": "other", "labels": {"team": "y"}},
    {"name": "bare"},
]
TERM = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "rack"]), "labelSelector": SELECTOR},
    optional={
        "namespaces": st.lists(st.sampled_from(["default", "other"]), max_size=1),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "y"}}, {"matchLabels": {"team": "x"}}]),
    },
)
TERMS = st.lists(TERM, max_size=2)
SPREAD = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 2),
        "topologyKey": st.sampled_from(["zone", "rack"]),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": SELECTOR,
    },
    optional={
        "minDomains": st.integers(1, 3),
        "matchLabelKeys": st.just(["version"]),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)
PORT = st.fixed_dictionaries(
    {"containerPort": st.just(80), "hostPort": st.integers(80, 81)},
    optional={"protocol": st.sampled_from(["TCP", "UDP"]), "hostIP": st.sampled_from(["", "10.0.0.1", "10.0.0.2"])},
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("c")},
    optional={
        "ports": st.lists(PORT, max_size=1),
        "restartPolicy": st.sampled_from(["Always", "Never"]),
        "restartPolicyRules": st.lists(
            st.fixed_dictionaries({"action": st.sampled_from(["Restart", "RestartAllContainers"])}), max_size=1
        ),
    },
)
TAINT = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["keep", "failures"]),
        "value": st.sampled_from(["a", "3", "12", "-1"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }
)
TOLERATION = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Equal", "Exists", "Gt", "Lt"]), "value": st.sampled_from(["a", "3", "10"])},
    optional={
        "key": st.sampled_from(["keep", "failures", "node.kubernetes.io/unschedulable"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
    },
).filter(lambda one: "key" in one or one["operator"] == "Exists")
CLAIMED = st.builds(
    lambda names: [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names],
    st.lists(st.sampled_from(["alone", "shared"]), max_size=2, unique=True),
)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINER, max_size=1),
        "initContainers": st.lists(CONTAINER, max_size=1),
        "volumes": CLAIMED,
        "tolerations": st.lists(TOLERATION, max_size=2),
        "topologySpreadConstraints": st.lists(SPREAD, max_size=2),
        "nodeSelector": st.fixed_dictionaries({"zone": VALUE}),
        "affinity": st.builds(
            lambda near, apart: {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
            },
            TERMS, TERMS,
        ),
    },
)  # fmt: skip
NODE = st.fixed_dictionaries(
    {"labels": st.fixed_dictionaries({}, optional={"zone": VALUE, "rack": VALUE})},
    optional={
        "taints": st.lists(TAINT, max_size=1),
        "declaredFeatures": st.lists(st.sampled_from(FEATURES), unique=True),
        "unschedulable": st.booleans(),
    },
)
PLACED = st.fixed_dictionaries(
    {"on": st.sampled_from(["n0", "n1", "n2", "gone"]), "labels": LABELS, "spec": SPEC},
    optional={"namespace": st.sampled_from(["other", "bare"]), "leaving": st.just(True)},
)


@given(st.lists(NODE, min_size=3, max_size=3), st.lists(PLACED, max_size=4), LABELS, SPEC)
@settings(max_examples=300, deadline=None)
def test_front_end_filters_as_the_model_does(
    nodes: list[Json], placed: list[Json], labels: dict[str, str], spec: Json
) -> None:
    case = {
        "nodes": [{**one, "name": f"n{number}"} for number, one in enumerate(nodes)],
        "pods": [{**one, "name": f"p{number}"} for number, one in enumerate(placed)],
        "namespaces": NAMESPACES,
        "claims": {"alone": ["ReadWriteOncePod"], "shared": ["ReadWriteMany"]},
    }
    cluster, pod = cluster_of(case), pod_of({"labels": labels, "spec": spec})
    by_model = decisions(pod, cluster)
    assert suited(pod, cluster) == {name for name, refused_by in by_model.items() if not refused_by}, by_model


@given(
    st.lists(st.sampled_from([None, "example.com/a", "example.com/b"]), max_size=2),
    st.lists(st.sampled_from(["example.com/a", "example.com/b", f"{BY_CLASS}c0", "cpu"]), max_size=2, unique=True),
    st.sets(st.sampled_from(["example.com/a", "example.com/b"])),
)
@settings(max_examples=100, deadline=None)
def test_resources_that_devices_serve_are_those_of_the_model(
    classes: list[str | None], wanted: list[str], there: set[str]
) -> None:
    case = {
        "nodes": [{"name": "n0"}, {"name": "n1", "allocatable": dict.fromkeys(sorted(there), "4")}],
        "deviceClasses": [
            {"name": f"c{number}", **({"extendedResourceName": one} if one else {})}
            for number, one in enumerate(classes)
        ],
    }
    requests = dict.fromkeys(wanted, "1")
    pod, cluster = (
        pod_of({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}),
        cluster_of(case),
    )
    assert waits_for_devices(pod, cluster) == bool(of_devices(pod, cluster))
