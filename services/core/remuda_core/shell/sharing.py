"""Which core should lead which RM, and which cores should stand by. Pure: every core computes the same from what all of
them see."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping


def shares(rms: Collection[str], members: Collection[str], holders: Mapping[str, str]) -> dict[str, str]:
    """The member that should lead each RM. Nobody has two more than another; who leads an RM keeps it, unless it has
    too many. Which ones go, and where to, is decided by hashes (rendezvous hashing): who sees the same, agrees.

    `holders`: who leads now. Empty when there are no members."""
    if not members:
        return {}
    held: dict[str, list[str]] = {member: [] for member in members}
    for rm in rms:
        if holders.get(rm) in held:
            held[holders[rm]].append(rm)
    least, more = divmod(len(rms), len(members))
    most_first = sorted(members, key=lambda member: (-len(held[member]), member))
    room = {member: least + (place < more) for place, member in enumerate(most_first)}
    result: dict[str, str] = {}
    for member, has in held.items():
        kept = sorted(has, key=lambda rm: score(rm, member), reverse=True)[: room[member]]
        room[member] -= len(kept)
        result.update(dict.fromkeys(kept, member))
    for rm in sorted(set(rms) - set(result)):
        member = max((member for member, left in room.items() if left), key=lambda member: score(rm, member))
        room[member] -= 1
        result[rm] = member
    return result


def ranked(rm: str, members: Collection[str]) -> tuple[str, ...]:
    """The members in the order in which they stand by for the RM (rendezvous hashing). The first that does not lead it
    takes over. A member that comes or goes changes nothing in the order of the others."""
    return tuple(sorted(members, key=lambda member: score(rm, member), reverse=True))


def score(rm: str, member: str) -> bytes:
    return hashlib.blake2b(f"{rm} {member}".encode(), digest_size=8).digest()
