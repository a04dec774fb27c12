"""The node an ask, or an allocation, is bound to (semantics section 10)."""

from __future__ import annotations

from collections.abc import Mapping

REQUIRED_NODE_TAGS = ("si/requiredNode", "yunikorn.apache.org/requiredNode")


def required_node(tags: Mapping[str, str]) -> str:
    """Empty: to none."""
    if not tags:
        return ""
    for tag in REQUIRED_NODE_TAGS:
        if tag in tags:
            return tags[tag]
    return ""
