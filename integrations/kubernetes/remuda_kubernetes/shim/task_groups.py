"""Task groups of a gang: their definition in an annotation, and the placeholder pods that stand for their members."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim import go_json, names, pod_reading, topology
from remuda_kubernetes.shim.quantities import INT64_MAX, PODS, Amounts, add, amounts
from remuda_proto.constants import CPU, GANG_STYLE_HARD, GANG_STYLE_SOFT

Json = dict[str, Any]
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]")


class TaskGroup(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A task group as users write it, with keys in any case, and null for what is absent. `size`: `min_resource`, as
    the scheduler counts, with one pod."""

    name: str
    min_member: int
    min_resource: dict[str, str | int | float]
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Json] = []
    affinity: Json | None = None
    topology_spread_constraints: list[Json] = []

    @property
    def quantities(self) -> dict[str, str]:
        """The amounts by the names of Kubernetes: `vcore` is `cpu`, as in the configuration of queues."""
        return {("cpu" if name == CPU else name): str(amount) for name, amount in self.min_resource.items()}

    @property
    def size(self) -> Amounts:
        return {**amounts(self.quantities), PODS: 1}


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """The policy of a gang. `timeout_ms`: 0 is the scheduler's own timeout. `style`: Hard or Soft."""

    timeout_ms: int
    style: str


@dataclass(frozen=True, slots=True)
class PlaceholderUser:
    """Numbers of the user and group that a placeholder runs as, and of the group of its volumes. None: what the image
    says, or the cluster chooses."""

    user: int | None = 65_535
    group: int | None = 65_535
    volumes: int | None = None

    @property
    def security_context(self) -> Json:
        said = {"runAsUser": self.user, "runAsGroup": self.group, "fsGroup": self.volumes}
        chosen = {key: number for key, number in said.items() if number is not None}
        return {"runAsNonRoot": True, **chosen, "seccompProfile": {"type": "RuntimeDefault"}}


USUAL_USER: Final = PlaceholderUser()
# Keys in these are labels, resources and the like.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "minResource", "matchLabels"})
# Of the group, and of tolerations, affinity and spread constraints (core/v1), which go to the API server as they are.
_NAMES: Final = go_json.names_of(
    TaskGroup,
    *("key", "operator", "value", "values", "effect", "tolerationSeconds", "weight", "preference"),
    *("nodeAffinity", "podAffinity", "podAntiAffinity", "podAffinityTerm", "nodeSelectorTerms"),
    *("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"),
    *("matchExpressions", "matchFields", "matchLabels", "matchLabelKeys", "mismatchLabelKeys"),
    *("labelSelector", "namespaceSelector", "namespaces", "topologyKey", "maxSkew", "minDomains"),
    *("whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"),
)


def task_groups_of(pod: Pod) -> tuple[TaskGroup, ...]:
    """The groups that a pod defines. Raises ValueError that names what is wrong."""
    text = pod.metadata.annotation(names.TASK_GROUPS)
    if not text:
        return ()
    try:
        groups = go_json.decode(text, list[TaskGroup], _NAMES, _MAPS)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{names.TASK_GROUPS}: {error}") from None
    if len(groups) > limits.TASK_GROUPS:
        raise ValueError(f"{names.TASK_GROUPS}: {len(groups)} groups: expected at most {limits.TASK_GROUPS}")
    seen: set[str] = set()
    for group in groups:
        if not group.name or group.name in seen:
            raise ValueError(f"{names.TASK_GROUPS}: name={group.name!r}: expected a name of its own")
        seen.add(group.name)
        _check(group)
    members = sum(group.min_member for group in groups)
    if members > limits.GANG_MEMBERS:
        raise ValueError(f"{names.TASK_GROUPS}: {members} members in all: expected at most {limits.GANG_MEMBERS}")
    _check_sum(placeholder_sum(tuple(groups)))
    return tuple(groups)


def _check(group: TaskGroup) -> None:
    where = f"{names.TASK_GROUPS}: group {group.name!r}"
    if not 1 <= group.min_member <= limits.GANG_MEMBERS:
        raise ValueError(f"{where}: minMember={group.min_member}: expected 1 to {limits.GANG_MEMBERS}")
    if not group.min_resource:
        raise ValueError(f"{where}: minResource: expected at least one amount")
    if "cpu" in group.min_resource and CPU in group.min_resource:
        raise ValueError(f"{where}: minResource: expected cpu or {CPU}, not both")
    if PODS in group.min_resource:
        raise ValueError(f"{where}: minResource: expected no {PODS}: each member is one")
    try:
        size = group.size
    except ValueError as error:
        raise ValueError(f"{where}: minResource: {error}") from None
    negative = [name for name, amount in size.items() if amount < 0]
    if negative:
        raise ValueError(f"{where}: minResource: {negative[0]}={size[negative[0]]}: expected 0 or more")


def _check_sum(total: Amounts) -> None:
    for name, amount in total.items():
        if amount > INT64_MAX:
            raise ValueError(f"{names.TASK_GROUPS}: {name}={amount} in all: expected less than 2**63")


def placeholder_sum(groups: tuple[TaskGroup, ...]) -> Amounts:
    """The sum of what all placeholders of a gang ask for."""
    total: Amounts = {}
    for group in groups:
        add(total, group.size, group.min_member)
    return total


def policy_of(pod: Pod) -> GangPolicy:
    """Parts that are not understood count as absent."""
    timeout_ms, style = 0, GANG_STYLE_SOFT
    for part in pod.metadata.annotation(names.POLICY_PARAMETERS).split():
        name, _, value = part.partition("=")
        if name == "placeholderTimeoutInSeconds" and value.isascii() and value.isdigit():
            seconds = int(value) if len(value) <= limits.QUANTITY_CHARACTERS else INT64_MAX
            timeout_ms = min(seconds * 1_000, INT64_MAX)
        elif name == "gangSchedulingStyle" and value == GANG_STYLE_HARD:
            style = GANG_STYLE_HARD
    return GangPolicy(timeout_ms, style)


def placeholder_suffix(originator: Pod, group: TaskGroup, number: int) -> str:
    """Makes the name of a placeholder its own, and the same in each attempt to create it."""
    digest = hashlib.sha256(f"{originator.uid}/{group.name}/{number}".encode()).hexdigest()
    return digest[: limits.PLACEHOLDER_SUFFIX_CHARACTERS]


def placeholder_pod(
    application: str,
    queue: str,
    group: TaskGroup,
    originator: Pod,
    suffix: str,
    image: str,
    user: PlaceholderUser = USUAL_USER,
) -> Json:
    """The manifest of one placeholder. `application`: its name, as pods give it. `suffix`: makes its name its own."""
    parts = (
        "tg",
        application[: limits.PLACEHOLDER_APPLICATION_CHARACTERS],
        group.name[: limits.PLACEHOLDER_GROUP_CHARACTERS],
        suffix,
    )
    name = _NOT_IN_NAMES.sub("-", "-".join(parts).lower())
    metadata, spec = originator.metadata, originator.spec
    kept = {key: metadata.annotation(key) for key in (names.TASK_GROUPS, names.POLICY_PARAMETERS, names.USER_INFO)}
    requests = group.quantities
    belongs = {names.APPLICATION: application, **({names.QUEUE: queue} if queue else {})}
    as_labels = {key: value for key, value in belongs.items() if _LABEL_VALUE.fullmatch(value)}
    labels = {key: value for key, value in group.labels.items() if key not in (names.APPLICATION, names.QUEUE)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": {**labels, **as_labels},
            "annotations": {
                **topology.annotations_of(originator),
                **group.annotations,
                **belongs,  # an annotation of a pod may say what no label can
                **{key: value for key, value in kept.items() if value},
                names.PLACEHOLDER: "true",
                names.TASK_GROUP: group.name,
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "controller": False,  # and it does not block its deletion: that needs a right on its finalizers
                }
            ],
        },
        "spec": {
            "schedulerName": spec.scheduler_name,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "nodeSelector": group.node_selector,
            "tolerations": group.tolerations,
            "topologySpreadConstraints": group.topology_spread_constraints,
            **({"affinity": group.affinity} if group.affinity else {}),
            **({"priorityClassName": spec.priority_class_name} if spec.priority_class_name else {}),
            "imagePullSecrets": [{"name": secret.name} for secret in spec.image_pull_secrets],
            "securityContext": user.security_context,
            "containers": [
                {
                    "name": "pause",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": {"requests": requests, "limits": requests},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }  # fmt: skip


def is_placeholder_of(pod: Pod, manifest: Json) -> bool:
    """Whether the pod was created from this manifest: a user may have taken its name."""
    owners = {owner.uid for owner in pod.metadata.owner_references}
    return (
        pod_reading.is_placeholder(pod)
        and pod_reading.task_group_of(pod) == manifest["metadata"]["annotations"][names.TASK_GROUP]
        and owners == {owner["uid"] for owner in manifest["metadata"]["ownerReferences"]}
    )
