"""Guests: applications of another scheduler in the partition of a resource manager (RM), such as Peloton's.

Their IDs, and the keys of their asks, begin with a prefix that no RM may use. So each reader of the log knows guests
from the ID alone. Guests take part in queues, quotas and nodes like all applications; the RM receives nothing about
them.
"""

from __future__ import annotations

import re
from typing import Final

PREFIX: Final = "@peloton."
# rmproxy sets this predicate class for the asks of guests: an RM is never asked about them.
PREDICATE_CLASS_TAG: Final = "remuda/predicateClass"
PREDICATE_CLASS: Final = "@peloton"


def is_guest(name: str) -> bool:
    """Whether the applicationID or allocationKey is of a guest."""
    return name.startswith(PREFIX)


def tenant_of(application_id: str) -> str:
    """The prefix of a cluster of guests; "" of the RM."""
    return prefix_of(application_id.removeprefix(PREFIX).partition(".")[0]) if is_guest(application_id) else ""


def name_for(reader: str, owner: str, name: str) -> str:
    """`name`, which is of the application `owner`, as those may read it whose application `reader` is: tenants do not
    learn each other's names."""
    if tenant_of(reader) == tenant_of(owner):
        return name
    return "a guest" if is_guest(owner) else "the resource manager"


def without_guests(text: str) -> str:
    """The text as an RM may read it: names of guests are `a guest`. For what `name_for` has not seen to."""
    return _NAMES.sub("a guest", text) if PREFIX in text else text


# An ID, a key, or `ID/KEY`, up to what cannot be in one, or ends a sentence.
_NAMES: Final = re.compile(rf"{re.escape(PREFIX)}[^\s,;()'\"]*[^\s,;:.()'\"]")


def prefix_of(cluster: str) -> str:
    """The prefix of all applications and keys of a cluster of Peloton, whose name has no full stop."""
    return f"{PREFIX}{cluster}."


def user_of(cluster: str) -> str:
    """The user that submits the applications, as ACLs of queues name it."""
    return f"peloton.{cluster}"
