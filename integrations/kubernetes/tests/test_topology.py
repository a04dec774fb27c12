"""Topology of pods and nodes: what the shim makes of annotations and labels, and where a core puts the pods."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.objects import node, pod
from remuda_core.commands import Register, Schedule, SubmitApplication, SubmitAsk, Tick, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Allocated, AskRejected
from remuda_core.facts import Ask as CoreAsk
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_kubernetes.api.objects import Node, Pod
from remuda_kubernetes.shim import topology
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import ReportNode
from remuda_kubernetes.shim.names import ATTRIBUTE_PREDICATES
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.shim.task_groups import TaskGroup, placeholder_pod
from remuda_proto.si.v1 import si_pb2 as si

RACK = "cloud.provider.com/topology-rack"
T = "remuda/topology."


def annotated(name: str, annotations: dict[str, str], **of: Any) -> Pod:
    return pod(name, annotations={"yunikorn.apache.org/app-id": "job", **annotations}, **of)


@pytest.mark.parametrize(
    ("annotations", "tags"),
    [
        ({}, {}),
        ({"kueue.x-k8s.io/podset-group-name": "g", "remuda.io/topology-size": "4"}, {}),  # no level, so no wish
        ({"remuda.io/topology-required": "rack"}, {"required": "rack"}),
        ({"remuda.io/topology-preferred": " rack "}, {"preferred": "rack"}),
        ({"remuda.io/topology-spread": "topology.kubernetes.io/zone"}, {"spread": "si/zone"}),
        ({"remuda.io/topology-slice": f"{RACK}/16"}, {"slice": f"{RACK}/16"}),
        ({"kueue.x-k8s.io/podset-required-topology": RACK}, {"required": RACK}),
        ({"kueue.x-k8s.io/podset-preferred-topology": "kubernetes.io/hostname"}, {"preferred": "host"}),
        ({"kueue.x-k8s.io/podset-slice-required-topology": RACK, "kueue.x-k8s.io/podset-slice-size": "16"},
         {"slice": f"{RACK}/16"}),
        ({"kueue.x-k8s.io/podset-slice-required-topology": RACK}, {"slice": f"{RACK}/"}),  # the scheduler says why
        ({"kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack",
          "kai.scheduler/topology-preferred-placement": "host"}, {"required": "rack", "preferred": "host"}),
        ({"remuda.io/topology-required": "rack", "kueue.x-k8s.io/podset-required-topology": RACK},
         {"required": "rack"}),
        ({"remuda.io/topology-required": "rack", "remuda.io/topology-group": "g", "remuda.io/topology-size": "4"},
         {"required": "rack", "group": "g", "size": "4"}),
        ({"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/podset-group-name": "leader-and-workers"},
         {"required": RACK, "group": "leader-and-workers"}),
    ],
)  # fmt: skip
def test_tags_of_annotations(annotations: dict[str, str], tags: dict[str, str]) -> None:
    assert topology.tags_of(annotated("p", annotations), "") == {T + name: value for name, value in tags.items()}


def test_the_group_is_the_task_group_else_the_pod_group_else_the_owner() -> None:
    wish = {"kueue.x-k8s.io/podset-required-topology": RACK}
    assert T + "group" not in topology.tags_of(annotated("p", wish), "workers")
    owned = topology.tags_of(annotated("p", wish, owner="uid-of-a-job"), "")
    assert owned[T + "group"] == "Pod/uid-of-a-job"
    grouped = annotated("p", {**wish, "kueue.x-k8s.io/pod-group-total-count": "8"},
                        labels={"kueue.x-k8s.io/pod-group-name": "train"}, owner="x")  # fmt: skip
    assert topology.tags_of(grouped, "") == {T + "required": RACK, T + "group": "train", T + "size": "8"}


def test_hostile_annotations_are_cut() -> None:
    tags = topology.tags_of(annotated("p", {"remuda.io/topology-required": "x" * 100_000}), "")
    assert len(tags[T + "required"]) < 1_000


def shim(**policy: Any) -> Shim:
    made = Shim(ShimPolicy(frozenset({"remuda"}), predicates=False, topology_labels=(RACK,), **policy))
    made.report()
    made.take()
    return made


def labelled(name: str, labels: dict[str, str]) -> Node:
    made = node(name)
    metadata = msgspec.structs.replace(made.metadata, labels={**(made.metadata.labels or {}), **labels})
    return msgspec.structs.replace(made, metadata=metadata)


def reported(made: Shim) -> list[dict[str, str]]:
    """Without the mark of what predicates depend on."""
    found = [dict(effect.node.attributes) for effect in made.take() if isinstance(effect, ReportNode)]
    return [{name: value for name, value in one.items() if name != ATTRIBUTE_PREDICATES} for one in found]


def test_labels_of_nodes_are_attributes_and_changes_are_told() -> None:
    it = shim()
    it.node_changed(labelled("n1", {RACK: "r1", "topology.kubernetes.io/zone": "z1", "other": "x"}))
    (created,) = reported(it)
    assert created[RACK] == "r1" and created["si/zone"] == "z1" and "other" not in created
    it.node_changed(labelled("n1", {RACK: "r2", "topology.kubernetes.io/zone": "z1"}))
    (changed,) = reported(it)
    assert changed == {RACK: "r2"}
    it.node_changed(labelled("n1", {"topology.kubernetes.io/zone": "z1"}))
    assert reported(it) == [{RACK: ""}]
    it.node_changed(labelled("n1", {"topology.kubernetes.io/zone": "z1", "other": "y"}))
    assert reported(it) == [{}]


def test_annotations_have_no_effect_where_they_are_switched_off() -> None:
    for is_on in (True, False):
        it = shim(topology=is_on)
        it.pod_changed(annotated("p", {"remuda.io/topology-required": "rack"}))
        it.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.job")]))
        (ask,) = [one for effect in it.take() for one in getattr(effect, "asks", [getattr(effect, "ask", None)]) if one]
        assert (T + "required" in ask.tags) == is_on


def test_placeholders_want_the_same_as_the_pods_that_they_stand_for() -> None:
    wish = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/podset-slice-size": "4"}
    made = annotated("p", {**wish, "other": "x"})
    group = TaskGroup(name="workers", min_member=4, min_resource={"cpu": "1"})
    placeholder = placeholder_pod("job", "root.a", group, made, "1", "image")
    annotations = placeholder["metadata"]["annotations"]
    assert wish.items() <= annotations.items() and "other" not in annotations
    own = TaskGroup(name="workers", min_member=4, min_resource={"cpu": "1"},
                    annotations={"kueue.x-k8s.io/podset-required-topology": "block"})  # fmt: skip
    annotations = placeholder_pod("job", "root.a", own, made, "1", "image")["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/podset-required-topology"] == "block"


PARTITION = "[k8s]default"


def core() -> Core:
    """Three racks of three, two and four nodes."""
    made = Core("k8s")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    levels = (TopologyLevel("block", "cloud.provider.com/topology-block"), TopologyLevel("rack", RACK))
    settings = PartitionSettings("default", root, topology=levels, devices={"nvidia.com/gpu": 1})
    made.handle(Register("k8s", Configuration("x", (settings,))), 1_000)
    for rack, count in (("r1", 3), ("r2", 2), ("r3", 4)):
        for number in range(count):
            attributes = {"cloud.provider.com/topology-block": "b1", RACK: rack}
            capacity = {"vcore": 8_000, "pods": 110, "nvidia.com/gpu": 8}
            made.handle(UpdateNode(PARTITION, f"{rack}-{number}", "CREATE", attributes, capacity), 1_000)
    made.handle(SubmitApplication(PARTITION, "default.job", "root.a", "ann"), 1_000)
    return made


def ask_of(made: Core, one: Pod) -> list[Any]:
    resource = {"vcore": 4_000, "pods": 1, "nvidia.com/gpu": 8}
    tags = topology.tags_of(one, "")
    return made.handle(SubmitAsk(CoreAsk(PARTITION, "default.job", one.uid, resource, tags=tags)), 1_000)


def test_a_gang_by_kueue_s_annotations_is_in_one_rack_and_a_late_member_waits_there() -> None:
    """The level is named by its label; GPUs of a device plugin are whole devices."""
    made = core()
    group = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/pod-group-total-count": "4"}
    members = [annotated(f"p{number}", group, labels={"kueue.x-k8s.io/pod-group-name": "train"}) for number in range(6)]
    for member in members[:3]:
        ask_of(made, member)
    assert not [one for one in made.handle(Schedule(100), 2_000) if isinstance(one, Allocated)]
    ask_of(made, members[3])
    placed = [one for one in made.handle(Schedule(100), 3_000) if isinstance(one, Allocated)]
    assert {one.node_id for one in placed} == {f"r3-{number}" for number in range(4)}
    assert [dict(one.devices) for one in placed] == [{"nvidia.com/gpu": "0,1,2,3,4,5,6,7"}] * 4
    ask_of(made, members[4])
    assert not [one for one in made.handle(Schedule(100), 4_000) if isinstance(one, Allocated)]
    reasons = json.dumps([str(one) for one in made.handle(Tick(), 60_000)])
    assert "its group runs in b1/r3, where no node has room for one more" in reasons


def test_a_level_that_the_scheduler_has_not_is_refused_with_the_reason() -> None:
    (refused,) = ask_of(core(), annotated("p", {"kai.scheduler/topology-required-placement": "row"}))
    assert isinstance(refused, AskRejected)
    assert "remuda/topology.required: 'row', expected block, rack or host" in refused.reason


def test_one_level_by_both_of_its_names_is_one_level() -> None:
    (refused,) = ask_of(
        core(), annotated("p", {"remuda.io/topology-required": "rack", "remuda.io/topology-spread": RACK})
    )
    assert isinstance(refused, AskRejected) and "expected another level than that of" in refused.reason
