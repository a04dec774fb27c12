"""The node to which an ask or an allocation is bound by a tag (semantics section 10)."""

from __future__ import annotations

from collections.abc import Mapping

REQUIRED_NODE_TAGS = ("si/requiredNode", "yunikorn.apache.org/requiredNode")


def required_node(tags: Mapping[str, str]) -> str:
    """The ID of the required node; "" if there is none."""
    if not tags:
        return ""
    for tag in REQUIRED_NODE_TAGS:
        if tag in tags:
            return tags[tag]
    return ""
