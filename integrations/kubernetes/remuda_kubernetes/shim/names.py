"""Labels, annotations and values that users of this family of schedulers know, and names of this front end."""

from __future__ import annotations

from typing import Final

from remuda_proto import constants

DOMAIN: Final = "yunikorn.apache.org/"
INTERNAL: Final = "internal.yunikorn.apache.org/"

APPLICATION: Final = f"{DOMAIN}app-id"
APPLICATION_LABELS: Final = ("applicationId", "spark-app-selector")  # legacy, in this order
QUEUE: Final = f"{DOMAIN}queue"
QUEUE_LABEL: Final = "queue"  # legacy
USER_INFO: Final = f"{DOMAIN}user.info"
TASK_GROUP: Final = f"{DOMAIN}task-group-name"
TASK_GROUPS: Final = f"{DOMAIN}task-groups"
POLICY_PARAMETERS: Final = f"{DOMAIN}schedulingPolicyParameters"
PLACEHOLDER: Final = f"{INTERNAL}placeholder"
PLACEHOLDER_LEGACY: Final = f"{DOMAIN}placeholder"
ALLOW_PREEMPTION: Final = f"{DOMAIN}allow-preemption"
USERNAME_LABEL: Final = f"{DOMAIN}username"  # removed after 1.9
DISABLE_STATE_AWARE: Final = "disableStateAware"  # a label
IGNORE_APPLICATION: Final = f"{DOMAIN}ignore-application"

NAMESPACE_QUOTA: Final = f"{DOMAIN}namespace.quota"
NAMESPACE_MAX: Final = f"{DOMAIN}namespace.max"  # the two of older versions
NAMESPACE_MAX_CPU: Final = f"{NAMESPACE_MAX}.cpu"
NAMESPACE_MAX_MEMORY: Final = f"{NAMESPACE_MAX}.memory"
NAMESPACE_GUARANTEED: Final = f"{DOMAIN}namespace.guaranteed"
NAMESPACE_MAX_APPS: Final = f"{DOMAIN}namespace.maxApps"
PARENT_QUEUE: Final = f"{DOMAIN}parentqueue"
ENABLE: Final = f"{DOMAIN}namespace.enableYuniKorn"
GENERATE_APPLICATION: Final = f"{DOMAIN}namespace.generateAppId"

# Tags of applications and asks, beside those of remuda_proto.constants.
TAG_NAMESPACE: Final = "namespace"
TAG_MAX_APPS: Final = "namespace.resourcemaxapps"
TAG_PARENT_QUEUE: Final = "namespace.parentqueue"
TAG_PULL_SECRETS: Final = "imagePullSecrets"
TAG_PREDICATE_CLASS: Final = "remuda/predicateClass"
TAG_TASK_GROUPS: Final = TASK_GROUPS
TAG_POLICY_PARAMETERS: Final = POLICY_PARAMETERS

UNIQUE_SUFFIX: Final = "-uniqueautogen"
NOBODY: Final = "nobody"

# Attributes of nodes.
ATTRIBUTE_PREDICATES: Final = "remuda/predicates"

# Of this front end.
MANAGED: Final = "remuda.io/managed"  # a label of a namespace: its pods depend on the admission webhook
GATE: Final = "remuda.io/quota"  # a scheduling gate
PIN: Final = "remuda.io/pin"  # an annotation of a namespace
APPROVED_AT: Final = "remuda.io/approved-at"  # an annotation of a pod
APPROVED: Final = "remuda.io/QuotaApproved"  # a condition of a pod
LEAVES_AT: Final = "remuda.io/leaves-at"  # an annotation of a node
# Annotations of a pod about its run time, and the tags that they become.
RUN_TIMES: Final = {
    "remuda.io/max-runtime": constants.MAX_RUNTIME,
    "remuda.io/expected-runtime": constants.EXPECTED_RUNTIME,
    "remuda.io/run-name": constants.RUNTIME_NAME,
}
KUEUE_MAX_RUNTIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"  # a label of a pod

# The resource by which a pod requests devices of a class by its name (dynamic resource allocation).
DEVICE_CLASS_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"

# Of other schedulers and controllers: which group of pods a pod belongs to.

# Where the object of a group is: the plural and the API group.
NATIVE_PODGROUPS: Final = "podgroups.scheduling.k8s.io"
NATIVE_WORKLOADS: Final = "workloads.scheduling.k8s.io"
PLUGIN_PODGROUPS: Final = "podgroups.scheduling.x-k8s.io"
VOLCANO_PODGROUPS: Final = "podgroups.scheduling.volcano.sh"
JOB_SETS: Final = "jobsets.jobset.x-k8s.io"
GROUP_KINDS: Final = (NATIVE_PODGROUPS, NATIVE_WORKLOADS, PLUGIN_PODGROUPS, VOLCANO_PODGROUPS, JOB_SETS)

PLUGIN_GROUP: Final = "scheduling.x-k8s.io/pod-group"
PLUGIN_GROUP_OLDER: Final = "pod-group.scheduling.sigs.k8s.io"
PLUGIN_GROUP_OLDEST: Final = "pod-group.scheduling.sigs.k8s.io/name"
PLUGIN_GROUP_OLDEST_SIZE: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_GROUP_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
LEADER_WORKER_SET: Final = "leaderworkerset.sigs.k8s.io/name"
LEADER_WORKER_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LEADER_WORKER_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
GROUP_LABELS: Final = (
    PLUGIN_GROUP, PLUGIN_GROUP_OLDER, PLUGIN_GROUP_OLDEST, KUEUE_GROUP, LEADER_WORKER_SET, JOB_SET,
)  # fmt: skip
