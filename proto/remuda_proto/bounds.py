"""The bounds of everything that resource managers send: one table, with reasons. Pure data and string functions: no
protobuf, no clock.

rmproxy enforces the table before it puts a request into the inbox: it refuses what is above a bound, item by item, with
a reason that the core repeats to the RM, and no later step sees more of the item than its names. Free texts
(`Text.cut`) are shortened instead of refused. The core checks each item by the same functions (`problem_of_ask` and so
on), because inboxes of earlier versions hold items that nobody has refused. Lengths count bytes of UTF-8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from remuda_proto.constants import NODE_PARTITION

# IDs and keys are kept in memory, in indexes and in every message that concerns the item. Kubernetes names have at
# most 253 bytes; a namespace, a name and an index together stay below 1,024.
ID_BYTES: Final = 1_024
# A path has at most QUEUE_LEVELS names of 64 bytes, with dots between.
QUEUE_PATH_BYTES: Final = 4_224
# Every allocation is booked in every queue from its leaf to the root. Protobuf messages nest at most 100 deep.
QUEUE_LEVELS: Final = 64
# Extended resources of one node or ask; scheduling compares them name by name.
RESOURCE_NAMES: Final = 128
RESOURCE_NAME_BYTES: Final = 512
# A free text for people: a sentence or two.
MESSAGE_BYTES: Final = 1_024
# A word such as "Hard".
WORD_BYTES: Final = 64
# Items of one request: the core handles as many within seconds.
ITEMS: Final = 100_000
# One node is one item, and its allocations are taken together with it.
EXISTING_ALLOCATIONS: Final = 10_000
VERSION_BYTES: Final = 256
# Above any real queues.yaml; the configuration service reads such a text in seconds.
CONFIGURATION_BYTES: Final = 4_000_000
# A regular expression in a filter of a placement rule: matching takes time linear in the name, with this factor.
PATTERN_BYTES: Final = 4_096
PATTERN_MEMORY_BYTES: Final = 256 * 1024
PATTERNS_KEPT: Final = 1_024
# A duration: more digits than any time needs. The texts of durations are kept for each RM.
DURATION_CHARACTERS: Final = 64
INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
# A reason quotes at most so much of a value, and at most so many of several problems.
SHOWN_CHARACTERS: Final = 100
SHOWN_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most `most` bytes. `cut`: a longer one is shortened, not refused."""

    most: int
    why: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of at most `most` texts of at most `each` bytes, together at most `total` bytes."""

    most: int
    each: int
    total: int
    why: str


@dataclass(frozen=True, slots=True)
class TextMap:
    """A map of at most `most` entries; a key has at most `key` bytes, a value `value`, all together `total`."""

    most: int
    key: int
    value: int
    total: int
    why: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list of at most `most` elements, or a map of as many entries whose keys have at most `key` bytes; an element
    has bounds of its own."""

    most: int
    why: str
    key: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `least` to `most`. `saturates`: a number outside counts as the nearest one inside; otherwise the
    item is refused."""

    least: int
    most: int
    why: str
    saturates: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A name of the enumeration; `unknown`: the effect of other numbers."""

    unknown: str


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false: needs no bound."""


@dataclass(frozen=True, slots=True)
class Nested:
    """One message, with bounds of its own."""


Bound = Text | Texts | TextMap | Items | Number | Choice | Flag | Nested

_ID = Text(ID_BYTES, "names an item in memory and in every message about it")
_RM_ID = Text(64, "is part of subjects")
# Labels and annotations of a Kubernetes pod.
TAGS: Final = TextMap(1_024, 512, 65_536, 65_536, "every allocation repeats the tags of its ask")
SETTINGS: Final = TextMap(256, 512, 16_384, 65_536, "is kept in the record of the RM, the log and snapshots")
# A user in large directories is in some hundreds of groups.
GROUPS: Final = Texts(1_024, ID_BYTES, 65_536, "limits and access lists look at every group")
_MESSAGE = Text(MESSAGE_BYTES, "is a text for people, repeated in facts and events", cut=True)
_TIME = Number(*INT64, "what lasts longer than any time in range never ends", saturates=True)
_PRIORITY = Number(*INT32, "any number of the type")
_ITEMS = Items(ITEMS, "the core handles one request within seconds")
_TERMINATION = Choice("is treated as STOPPED_BY_RM")

# "Message.field" of si.v1 -> its bound: every field of every message that an RM sends.
FIELDS: Final[Mapping[str, Bound]] = {
    "RegisterResourceManagerRequest.rmID": _RM_ID,
    "RegisterResourceManagerRequest.version": Text(VERSION_BYTES, "is shown to people"),
    "RegisterResourceManagerRequest.policyGroup": Text(VERSION_BYTES, "names a configuration"),
    "RegisterResourceManagerRequest.buildInfo": SETTINGS,
    "RegisterResourceManagerRequest.config": Text(CONFIGURATION_BYTES, "is read in seconds"),
    "RegisterResourceManagerRequest.extraConfig": SETTINGS,
    "UpdateConfigurationRequest.rmID": _RM_ID,
    "UpdateConfigurationRequest.policyGroup": Text(VERSION_BYTES, "names a configuration"),
    "UpdateConfigurationRequest.config": Text(CONFIGURATION_BYTES, "is read in seconds"),
    "UpdateConfigurationRequest.extraConfig": SETTINGS,
    "AllocationRequest.asks": _ITEMS,
    "AllocationRequest.releases": Nested(),
    "AllocationRequest.rmID": _RM_ID,
    "AllocationRequest.allocations": _ITEMS,
    "AllocationReleasesRequest.allocationsToRelease": _ITEMS,
    "AllocationReleasesRequest.allocationAsksToRelease": _ITEMS,
    "ApplicationRequest.new": _ITEMS,
    "ApplicationRequest.remove": _ITEMS,
    "ApplicationRequest.rmID": _RM_ID,
    "NodeRequest.nodes": _ITEMS,
    "NodeRequest.rmID": _RM_ID,
    "Resource.resources": Items(RESOURCE_NAMES, "scheduling compares resources name by name", RESOURCE_NAME_BYTES),
    "Quantity.value": Number(0, INT64[1], "amounts are not negative; sums saturate"),
    "AddApplicationRequest.applicationID": _ID,
    "AddApplicationRequest.queueName": Text(
        QUEUE_PATH_BYTES, f"a path has at most {QUEUE_LEVELS} names of at most 64 bytes"
    ),
    "AddApplicationRequest.partitionName": _ID,
    "AddApplicationRequest.ugi": Nested(),
    "AddApplicationRequest.tags": TAGS,
    "AddApplicationRequest.executionTimeoutMilliSeconds": _TIME,
    "AddApplicationRequest.placeholderAsk": Nested(),
    "AddApplicationRequest.gangSchedulingStyle": Text(WORD_BYTES, "is Hard or Soft"),
    "RemoveApplicationRequest.applicationID": _ID,
    "RemoveApplicationRequest.partitionName": _ID,
    "UserGroupInformation.user": _ID,
    "UserGroupInformation.groups": GROUPS,
    "AllocationAsk.allocationKey": _ID,
    "AllocationAsk.applicationID": _ID,
    "AllocationAsk.partitionName": _ID,
    "AllocationAsk.resourceAsk": Nested(),
    "AllocationAsk.maxAllocations": Number(1, INT32[1], "an ask is for something"),
    "AllocationAsk.priority": _PRIORITY,
    "AllocationAsk.executionTimeoutMilliSeconds": _TIME,
    "AllocationAsk.tags": TAGS,
    "AllocationAsk.taskGroupName": _ID,
    "AllocationAsk.placeholder": Flag(),
    "AllocationAsk.Originator": Flag(),
    "AllocationAsk.preemptionPolicy": Nested(),
    "PreemptionPolicy.allowPreemptSelf": Flag(),
    "PreemptionPolicy.allowPreemptOther": Flag(),
    "Allocation.allocationKey": _ID,
    "Allocation.allocationTags": TAGS,
    "Allocation.UUID": _ID,
    "Allocation.resourcePerAlloc": Nested(),
    "Allocation.priority": _PRIORITY,
    "Allocation.nodeID": _ID,
    "Allocation.applicationID": _ID,
    "Allocation.partitionName": _ID,
    "Allocation.taskGroupName": _ID,
    "Allocation.placeholder": Flag(),
    "Allocation.allocationID": _ID,
    "Allocation.originator": Flag(),
    "Allocation.preemptionPolicy": Nested(),
    "AllocationRelease.partitionName": _ID,
    "AllocationRelease.applicationID": _ID,
    "AllocationRelease.UUID": _ID,
    "AllocationRelease.terminationType": _TERMINATION,
    "AllocationRelease.message": _MESSAGE,
    "AllocationRelease.allocationKey": _ID,
    "AllocationRelease.allocationID": _ID,
    "AllocationAskRelease.partitionName": _ID,
    "AllocationAskRelease.applicationID": _ID,
    "AllocationAskRelease.allocationKey": _ID,
    "AllocationAskRelease.terminationType": _TERMINATION,
    "AllocationAskRelease.message": _MESSAGE,
    "NodeInfo.nodeID": _ID,
    "NodeInfo.action": Choice("is refused"),
    "NodeInfo.attributes": TAGS,
    "NodeInfo.schedulableResource": Nested(),
    "NodeInfo.occupiedResource": Nested(),
    "NodeInfo.existingAllocations": Items(EXISTING_ALLOCATIONS, "a node is taken as a whole"),
    "PreemptionPredicatesResponse.success": Flag(),
    "PreemptionPredicatesResponse.index": Number(*INT32, "is not used"),
    "PreemptionPredicatesResponse.sparedAllocationKeys": Texts(
        1_000, ID_BYTES, 1_000 * ID_BYTES, "the others are not read"
    ),
}

# Messages that the scheduler sends; their texts are built out of bounded ones.
SENT_BY_SCHEDULER: Final = frozenset({
    "RegisterResourceManagerResponse", "AllocationResponse", "ApplicationResponse", "NodeResponse",
    "AcceptedApplication", "RejectedApplication", "UpdatedApplication", "RejectedAllocationAsk", "RejectedAllocation",
    "UpdateContainerSchedulingStateRequest", "AcceptedNode", "RejectedNode", "PredicatesArgs",
    "PreemptionPredicatesArgs", "EventRecord",
})  # fmt: skip


def exceeds(text: str, most: int) -> bool:
    """Whether the text has more than `most` bytes. Constant time for short and for ASCII texts."""
    characters = len(text)
    if 4 * characters <= most:
        return False
    if characters > most or text.isascii():
        return characters > most
    return len(text.encode(errors="surrogatepass")) > most


def shortened(text: str, most: int) -> str:
    """The text, or as many whole characters as fit into `most` bytes."""
    if not exceeds(text, most):
        return text
    return text[:most].encode(errors="surrogatepass")[:most].decode(errors="ignore")


def shown(value: object) -> str:
    """A value from outside as reasons quote it: escaped, in quotes if it is a text, and short."""
    if not isinstance(value, str):
        return shortened(repr(value), SHOWN_CHARACTERS)
    if len(value) <= SHOWN_CHARACTERS:
        return repr(value)
    return f"{value[:SHOWN_CHARACTERS]!r}..."


def too_long(field: str, text: str, most: int) -> str | None:
    """Why the text is refused, None if it is within its bound."""
    return f"{field} {shown(text)}: expected at most {most} bytes" if exceeds(text, most) else None


def too_many(field: str, count: int, most: int) -> str | None:
    return f"{field}: more than {most} entries, expected at most {most}" if count > most else None


def problem_of_map(field: str, entries: Mapping[str, str], bound: TextMap) -> str | None:
    """Why the map is refused, None if it is within its bound."""
    size = 0
    for key, value in entries.items():
        size += len(key) + len(value)
    if 4 * size <= bound.key and len(entries) <= bound.most:
        return None  # none can be too long
    if problem := too_many(field, len(entries), bound.most):
        return problem
    size = 0
    for key, value in entries.items():
        if exceeds(key, bound.key):
            return too_long(f"{field}: key", key, bound.key)
        if exceeds(value, bound.value):
            return too_long(f"{field} {shown(key)}:", value, bound.value)
        size += size_of(key) + size_of(value)
    if size > bound.total:
        return f"{field}: more than {bound.total} bytes together, expected at most {bound.total}"
    return None


def problem_of_texts(field: str, texts: Iterable[str], bound: Texts) -> str | None:
    """Why the list is refused, None if it is within its bound."""
    texts = list(texts)
    if problem := too_many(field, len(texts), bound.most):
        return problem
    for text in texts:
        if problem := too_long(field, text, bound.each):
            return problem
    if sum(map(size_of, texts)) > bound.total:
        return f"{field}: more than {bound.total} bytes together, expected at most {bound.total}"
    return None


def problem_of_name(field: str, name: str) -> str | None:
    """Why an ID or key of a request is invalid, None if it is valid."""
    return too_long(field, name, ID_BYTES) if name else f"{field} is empty"


def problem_of_application(
    application_id: str, queue: str, user: str, groups: Iterable[str], tags: Mapping[str, str], gang_style: str
) -> str | None:
    """Why an application is refused, None if its names, groups and tags are within their bounds."""
    return (
        problem_of_name("applicationID", application_id)
        or too_long("queueName", queue, QUEUE_PATH_BYTES)
        or too_long("user", user, ID_BYTES)
        or problem_of_texts("groups", groups, GROUPS)
        or problem_of_map("tags", tags, TAGS)
        or too_long("gangSchedulingStyle", gang_style, WORD_BYTES)
    )


def problem_of_ask(allocation_key: str, application_id: str, task_group: str, tags: Mapping[str, str]) -> str | None:
    """Why an ask is refused, None if its names and tags are within their bounds."""
    short = 4 * (len(allocation_key) + len(application_id) + len(task_group)) <= ID_BYTES
    if short and allocation_key and application_id and not tags:
        return None  # nearly always
    return (
        problem_of_name("allocationKey", allocation_key)
        or problem_of_name("applicationID", application_id)
        or too_long("taskGroupName", task_group, ID_BYTES)
        or problem_of_map("tags", tags, TAGS)
    )


def problem_of_allocation(uuid: str, allocation_key: str, task_group: str, tags: Mapping[str, str]) -> str | None:
    """Why a reported allocation is refused, None if its names and tags are within their bounds."""
    return (
        problem_of_name("UUID", uuid)
        or problem_of_name("allocationKey", allocation_key)
        or too_long("taskGroupName", task_group, ID_BYTES)
        or problem_of_map("allocationTags", tags, TAGS)
    )


def problem_of_node(node_id: str, attributes: Mapping[str, str]) -> str | None:
    """Why a node is refused, None if its ID and attributes are within their bounds."""
    return problem_of_name("nodeID", node_id) or problem_of_attributes("attributes", attributes)


def problem_of_attributes(what: str, attributes: Mapping[str, str]) -> str | None:
    """Why attributes of a node are too many or too long, None if they are not. The partition, which rmproxy writes, is
    not counted."""
    if problem_of_map(what, attributes, TAGS) is None:
        return None
    return problem_of_map(what, {name: attributes[name] for name in attributes if name != NODE_PARTITION}, TAGS)


def problem_of_resource_names(field: str, names: Collection[str]) -> str | None:
    """Why the names in a resource are invalid: too many, or one is too long. None if they are valid."""
    if problem := too_many(field, len(names), RESOURCE_NAMES):
        return problem
    for name in names:
        if exceeds(name, RESOURCE_NAME_BYTES):
            return too_long(f"{field}: resource", name, RESOURCE_NAME_BYTES)
    return None


def size_of(text: str) -> int:
    """The size of a text in UTF-8, in bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def joined(problems: Iterable[str]) -> str:
    """All problems in one line; of many the first few and how many more there are."""
    found = list(problems)
    more = len(found) - SHOWN_PROBLEMS
    return "; ".join(found if more <= 0 else [*found[:SHOWN_PROBLEMS], f"and {more} more"])


def of_message(name: str) -> Iterator[tuple[str, Bound]]:
    """The fields of one message with their bounds."""
    for field, bound in FIELDS.items():
        message, _, short = field.partition(".")
        if message == name:
            yield short, bound
