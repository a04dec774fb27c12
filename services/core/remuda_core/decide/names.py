"""What may be a name (semantics section 1), and how names are shown."""

from __future__ import annotations

import re

from ..limits import NAME_LENGTH

USER = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.@-]*[$]?")
GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


def problem_of(field: str, name: str) -> str | None:
    """Why an ID or key from outside is no good, None if it is."""
    if not name:
        return f"{field} is empty"
    if len(name) > NAME_LENGTH:
        return f"{field} has {len(name)} characters, at most {NAME_LENGTH} are allowed"
    return None


def plain(partition: str) -> str:
    """[rm-1]default -> default"""
    return partition.partition("]")[2] or partition
