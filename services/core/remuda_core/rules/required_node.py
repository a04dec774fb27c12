"""The node to which an ask or an allocation is bound by a tag (semantics section 10)."""

from __future__ import annotations

from collections.abc import Mapping

REQUIRED_NODE_TAGS = ("si/requiredNode", "yunikorn.apache.org/requiredNode")
# "true": the work is bound to the node because it runs there already, and elsewhere would do as well.
BOUND_PREEMPTIBLE_TAG = "remuda/boundPreemptible"


def required_node(tags: Mapping[str, str]) -> str:
    """The ID of the required node; "" if there is none."""
    if not tags:
        return ""
    for tag in REQUIRED_NODE_TAGS:
        if tag in tags:
            return tags[tag]
    return ""


def is_protected(tags: Mapping[str, str]) -> bool:
    """Whether an allocation with these tags is never preempted, as it is bound to a node."""
    return bool(tags and required_node(tags)) and tags.get(BOUND_PREEMPTIBLE_TAG) != "true"
