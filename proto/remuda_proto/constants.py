"""Names that have a meaning on the wire: keys of tags and attributes, resources, settings.

`si.v1` fixes them beside its messages (000, "constants"). The last section is this project's own: names that `si.v1`
leaves open, and values that RMs of this family are used to. Knows nothing of what the scheduler makes of them.
"""

from __future__ import annotations

from typing import Final

# Attributes of nodes.

ARCH: Final = "si/arch"
HOST_NAME: Final = "si/hostname"
RACK_NAME: Final = "si/rackname"
OS: Final = "si/os"
INSTANCE_TYPE: Final = "si/instance-type"
FAILURE_DOMAIN_ZONE: Final = "si/zone"
FAILURE_DOMAIN_REGION: Final = "si/region"
LOCAL_IMAGES: Final = "si/local-images"
NODE_PARTITION: Final = "si/node-partition"  # the node belongs to this partition; absent: "default"
NODE_READY_ATTRIBUTE: Final = "ready"  # "false": nothing new is placed there

# Tags of allocations.

APPLICATION_ID: Final = "si/application-id"
CONTAINER_IMAGE: Final = "si/container-image"
CONTAINER_PORTS: Final = "si/container-ports"

# A longer key is put together as domain + group + key: "kubernetes.io/meta/namespace". The group may be missing.

DOMAIN_K8S: Final = "kubernetes.io/"
DOMAIN_YUNIKORN: Final = "yunikorn.apache.org/"

GROUP_META: Final = "meta/"
GROUP_LABEL: Final = "label/"
GROUP_ANNOTATION: Final = "annotation/"

KEY_POD_NAME: Final = "podName"
KEY_NAMESPACE: Final = "namespace"
KEY_REQUIRED_NODE: Final = "requiredNode"
KEY_ALLOW_PREEMPTION: Final = "allowPreemption"

# Of an allocation of no application: something else runs it ("default", or "static" for one that never changes).
FOREIGN_TAG: Final = "foreign"

CREATION_TIME: Final = "creationTime"

# Resources whose unit is fixed.

MEMORY: Final = "memory"  # bytes
CPU: Final = "vcore"  # thousandths of a core

# Tags of applications.

APP_TAG_NAMESPACE_RESOURCE_QUOTA: Final = "namespace.resourcequota"  # JSON of a Resource: max of a queue made for it
APP_TAG_NAMESPACE_RESOURCE_GUARANTEED: Final = "namespace.resourceguaranteed"  # the same for guaranteed
APP_TAG_STATE_AWARE_DISABLE: Final = "application.stateaware.disable"  # "true": Running from the first allocation on

# Ours: not in `si.v1`.

# Of asks, and of applications for all their asks (semantics section 22): how long an allocation is expected to run, and
# runs at most ("40m"); and the name under which run times of a user are remembered.
EXPECTED_RUNTIME: Final = "remuda/expectedRuntime"
MAX_RUNTIME: Final = "remuda/maxRuntime"
# An attribute of a node: when it leaves, in ms since 1970 or as a time of RFC 3339.
LEAVES_AT: Final = "remuda/leavesAt"
RUNTIME_NAME: Final = "remuda/name"

# An ask with either tag is placed on the node its value names, or waits.
REQUIRED_NODE: Final = DOMAIN_YUNIKORN + KEY_REQUIRED_NODE
REQUIRED_NODE_SI: Final = "si/" + KEY_REQUIRED_NODE
REQUIRED_NODE_TAGS: Final = (REQUIRED_NODE, REQUIRED_NODE_SI)

# With the name of a resource that stands on devices behind it. Of a node: the names of its devices, with commas between
# them. Of an allocation: the names of the devices that it is on. The same with a suffix:
DEVICES_TAG: Final = "remuda/devices."
DEVICES_UNFIT: Final = ".unfit"  # of a node: its devices on which nothing new is placed
DEVICES_OCCUPIED: Final = ".occupied"  # of a node: what others take of its devices, "GPU-a=500,GPU-b=20"
DEVICES_COUNT: Final = ".count"  # of an ask: on how many devices it wants an equal share

# Of asks: the level whose one domain all members of a group share, or share if they can; over whose domains they
# spread; slices, "rack/16"; which asks are a group, and how many of them have to fit before the first starts.
TOPOLOGY_TAG: Final = "remuda/topology."
TOPOLOGY_REQUIRED: Final = TOPOLOGY_TAG + "required"
TOPOLOGY_PREFERRED: Final = TOPOLOGY_TAG + "preferred"
TOPOLOGY_SPREAD: Final = TOPOLOGY_TAG + "spread"
TOPOLOGY_SLICE: Final = TOPOLOGY_TAG + "slice"
TOPOLOGY_GROUP: Final = TOPOLOGY_TAG + "group"
TOPOLOGY_SIZE: Final = TOPOLOGY_TAG + "size"
TOPOLOGY_HOST: Final = "host"  # the level below all others, on which each node is a domain of its own

APP_TAG_CREATE_FORCE: Final = "application.create.force"  # "true": to RECOVERY_QUEUE when no placement rule matches
RECOVERY_QUEUE: Final = "root.@recovery@"

# Values of AddApplicationRequest.gangSchedulingStyle; anything else counts as soft.
GANG_STYLE_HARD: Final = "Hard"
GANG_STYLE_SOFT: Final = "Soft"

# A key of extraConfig, and its values.
CONFIG_REQUIRES: Final = "requires"  # what the RM cannot do without, with commas between: REQUIRES
REQUIRES_DEVICES: Final = "devices"
REQUIRES_TOPOLOGY: Final = "topology"
REQUIRES: Final = (REQUIRES_DEVICES, REQUIRES_TOPOLOGY)

# Constraints of a waiting ask (AskWaiting) that mean "no node fits". All others are quotas, limits, and states that
# hold the ask back.
NO_NODE_FITS: Final = frozenset(
    [
        "node", "device", "too_large", "unknown_node", "unschedulable_node", "full_node", "predicate", "reserved",
        "domain", "slice", "leaving", "window",
    ]
)  # fmt: skip
