"""What names look like (queues, users, groups, partitions) and which regular expressions a filter may hold. Pure."""

from __future__ import annotations

import re

QUEUE = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARTITION = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
USER = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.@-]*[$]?")
GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
BY_KIND = {"user": USER, "group": GROUP}

SHAPE = {
    "queue": "1 to 64 of A-Z a-z 0-9 _ -",
    "partition": "1 to 64 of A-Z a-z 0-9 _ . -",
    "user": "a letter or _, then letters, digits and : _ . @ -, a $ at most at the end",
    "group": "a letter or _, then letters, digits and : _ . -",
}

# What makes an entry of a filter a regular expression instead of a name.
_SPECIAL = re.compile(r"[\^$*+?()\[{}|]")
# Filters are written for RE2, and matched in time linear in the name: what RE2 lacks, or reads differently, is refused.
_NOT_RE2 = re.compile(
    r"""\\(?:[^A-Za-z0-9]|[dDsSwWbBAaftnrv]|x[0-9a-fA-F]{2})   # fine: step over it
      | (?P<bad> \\.? | \(\?(?!:|P<|[imsU-]+[:)]) | \[\[: | [*+?}]\+ | \{, | \{[0-9,]*[0-9]{4} )""",
    re.VERBOSE | re.DOTALL,
)


def is_expression(entry: str) -> bool:
    return _SPECIAL.search(entry) is not None


def refuse_expression(entry: str) -> str | None:
    """Why this is not a regular expression a filter can use; None when it is one."""
    for match in _NOT_RE2.finditer(entry):
        if match["bad"]:
            return f"{match['bad']!r} is not supported"
    try:
        re.compile(entry)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None
