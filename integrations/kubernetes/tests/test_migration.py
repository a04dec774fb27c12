"""A namespace moves to remuda: gangs of YuniKorn, of Kueue and of Volcano side by side, from manifests that nobody has
touched, through the admission webhook and the front end in both modes. Pods that run since before are taken over."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.objects import node
from remuda_kubernetes.api.objects import Pod, PodGroup
from remuda_kubernetes.plugin.plugin import Hold, OpenGate, PluginPolicy, PluginShim
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, Bind, CreatePlaceholder, ReportNode, Submit
from remuda_kubernetes.shim.shim import Shim
from remuda_kubernetes.webhook.policy import WebhookPolicy
from remuda_kubernetes.webhook.review import Surroundings, answer, request_of
from remuda_proto.si.v1 import si_pb2 as si

Json = dict[str, Any]
DEFAULT = "default-scheduler"
OWN = "system:serviceaccount:remuda:remuda"
SIZE = 3


def manifest(name: str, scheduler: str | None, labels: dict[str, str], annotations: dict[str, str]) -> Json:
    """As the user of the former scheduler has it: `scheduler`: None: not named."""
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], **({"schedulerName": scheduler} if scheduler else {})}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "namespace": "team", "labels": labels, "annotations": annotations}}  # fmt: skip


GROUPS = json.dumps([{"name": "workers", "minMember": SIZE, "minResource": {"cpu": "1"}}])
# Of each scheduler: the scheduler's name, labels and annotations of pods; the application and the queue expected.
FORMER: dict[str, tuple[str | None, dict[str, str], dict[str, str], str, str]] = {
    "yunikorn": (
        "yunikorn", {"applicationId": "etl", "queue": "root.etl"},
        {"yunikorn.apache.org/task-groups": GROUPS, "yunikorn.apache.org/task-group-name": "workers"},
        "etl", "root.etl",
    ),
    "kueue": (
        None, {"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/queue-name": "research"},
        {"kueue.x-k8s.io/pod-group-total-count": str(SIZE)}, "train", "research",
    ),
    "volcano": ("volcano", {}, {"scheduling.k8s.io/group-name": "simulate"}, "simulate", "batch"),
}  # fmt: skip
POD_GROUP = {"metadata": {"name": "simulate", "namespace": "team"}, "spec": {"minMember": SIZE, "queue": "batch"}}


def members(former: str) -> list[Json]:
    scheduler, labels, annotations, *_ = FORMER[former]
    return [manifest(f"{former}-{number}", scheduler, labels, annotations) for number in range(SIZE)]


def admitted(pod: Json, *, is_plugin: bool, by: str = "alice") -> Json:
    """As the API server stores it: the webhook's patch, and what the server fills in."""
    policy = WebhookPolicy(
        scheduler_name=DEFAULT if is_plugin else "remuda",
        allowed_names=frozenset({"remuda", "yunikorn", *([DEFAULT] if is_plugin else [])}),
        own_user=OWN, own_namespace="remuda", gates=is_plugin,
    )  # fmt: skip
    sent = deepcopy(pod)
    sent["spec"].setdefault("schedulerName", DEFAULT)
    review = {"request": {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "team",
                          "userInfo": {"username": by, "groups": []}, "object": sent}}  # fmt: skip
    response = answer(request_of(json.dumps(review).encode()), policy, Surroundings("team", None, {}, "x"))["response"]
    assert response["allowed"], response
    for change in json.loads(base64.b64decode(response.get("patch", "W10="))):
        assert change["op"] in ("add", "replace")
        *way, last = change["path"].strip("/").split("/")
        at = sent
        for step in way:
            at = at[step]
        if isinstance(at, list):
            at.append(change["value"])
        else:
            at[last] = change["value"]
    metadata = {**sent["metadata"], "uid": f"uid-{sent['metadata']['name']}", "resourceVersion": "1",
                "creationTimestamp": f"2026-01-01T00:00:0{sent['metadata']['name'][-1]}Z"}  # fmt: skip
    return {**sent, "metadata": metadata, "status": {"phase": "Pending"}}


class Namespace:
    """The cluster, with a scheduler that grants everything at once."""

    def __init__(self, *, is_plugin: bool) -> None:
        self._is_plugin = is_plugin
        scheduled = frozenset({"remuda", "yunikorn"})
        self.shim: Shim = (
            PluginShim(PluginPolicy(scheduled, placed_by=frozenset({DEFAULT}), hold=Hold.GATES))
            if is_plugin
            else Shim(ShimPolicy(scheduled))
        )
        self.pods: dict[str, Json] = {}  # by UID
        self.submitted: dict[str, str] = {}  # application -> queue
        self.placeholders: dict[str, int] = {}  # application -> number
        self.real: list[str] = []  # names of pods that were asked for as what they are, in this order
        self.bound: set[str] = set()  # names
        self.reported: list[si.Allocation] = []

    def create(self, manifest: Json, by: str = "alice", node_name: str = "") -> None:
        pod = admitted(manifest, is_plugin=self._is_plugin, by=by)
        if node_name:
            pod["spec"]["nodeName"] = node_name
        self.pods[pod["metadata"]["uid"]] = pod
        self._changed(pod)

    def _changed(self, pod: Json) -> None:
        self.shim.pod_changed(msgspec.convert(pod, Pod, strict=False))

    def settle(self) -> None:
        while effects := self.shim.take():
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect: Any) -> None:
        match effect:
            case Submit(application):
                self.submitted[application.applicationID] = application.queueName
                accepted = [si.AcceptedApplication(applicationID=application.applicationID)]
                self.shim.application(si.ApplicationResponse(accepted=accepted))
            case CreatePlaceholder(application, made):
                self.placeholders[application] = self.placeholders.get(application, 0) + 1
                self.create(made, OWN)
            case Ask(ask):
                if not ask.placeholder:
                    self.real.append(self.pods[ask.allocationKey]["metadata"]["name"])
                self.shim.allocation(si.AllocationResponse(new=[self._allocation(ask)]))
            case Bind(pod, on) | OpenGate(pod, on):
                there = self.pods[pod.uid]
                there["spec"] = {**there["spec"], "nodeName": on, "schedulingGates": []}
                self.bound.add(pod.name)
                self._changed(there)
            case ReportNode(info):
                self.reported += info.existingAllocations

    def _allocation(self, ask: si.AllocationAsk) -> si.Allocation:
        return si.Allocation(
            allocationKey=ask.allocationKey, UUID=f"u-{ask.allocationKey}", nodeID="n1",
            applicationID=ask.applicationID, resourcePerAlloc=ask.resourceAsk,
        )  # fmt: skip


@pytest.mark.parametrize("is_plugin", [False, True], ids=["shim mode", "plugin mode"])
def test_three_kinds_of_gangs_move_without_touching_their_manifests(is_plugin: bool) -> None:
    """Each has its application, its queue and its gang, and none waits for another's."""
    it = Namespace(is_plugin=is_plugin)
    it.shim.node_changed(node("n1", cpu="64"))
    it.shim.report()
    for number in range(SIZE):
        for former in FORMER:
            it.create(members(former)[number])
    it.settle()
    assert it.placeholders == {"team.etl": SIZE, "team.train": SIZE}
    it.shim.applications.group_changed(names.VOLCANO_PODGROUPS, msgspec.convert(POD_GROUP, PodGroup))
    it.settle()
    expected = {f"team.{application}": queue for *_, application, queue in FORMER.values()}
    assert it.submitted == expected
    assert it.placeholders == dict.fromkeys(expected, SIZE)
    everyone = {f"{former}-{number}" for former in FORMER for number in range(SIZE)}
    assert set(it.real) == everyone <= it.bound
    for former in FORMER:
        for one in members(former):
            stored = it.pods[f"uid-{one['metadata']['name']}"]
            kept = {key: stored["metadata"]["annotations"][key] for key in one["metadata"]["annotations"]}
            assert (stored["metadata"]["labels"], kept) == (one["metadata"]["labels"], one["metadata"]["annotations"])


@pytest.mark.parametrize("former", FORMER)
def test_gang_that_runs_since_before_is_taken_over(former: str) -> None:
    """Its pods are reported where they run, without placeholders, and a late member is asked for by itself."""
    it = Namespace(is_plugin=False)
    it.shim.node_changed(node("n1", cpu="64"))
    it.shim.applications.group_changed(names.VOLCANO_PODGROUPS, msgspec.convert(POD_GROUP, PodGroup))
    *running, late = members(former)
    for one in running:
        it.create(one, node_name="n1", by="system:serviceaccount:kube-system:replicaset-controller")
    it.shim.report()
    it.settle()
    application = FORMER[former][3]
    assert it.submitted.keys() == {f"team.{application}"}
    assert sorted(one.allocationKey for one in it.reported) == [f"uid-{one['metadata']['name']}" for one in running]
    it.create(late)
    it.settle()
    assert it.real == [late["metadata"]["name"]]
    assert not it.placeholders
