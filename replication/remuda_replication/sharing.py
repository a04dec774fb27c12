"""Assigns RMs to cores: which core should lead each RM, and which should stand by. Pure: all cores compute the same
assignment from the same members."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping


def shares(rms: Collection[str], members: Collection[str], holders: Mapping[str, str]) -> dict[str, str]:
    """The member that should lead each RM. The numbers of RMs of two members differ by one at most. A leader keeps its
    RMs unless it has too many. Rendezvous hashing selects the RMs that move, and their new leaders.

    `holders`: the present leaders. Returns an empty map when there are no members."""
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
    """The members in the order in which they stand by for the RM (rendezvous hashing). The first one that does not lead
    takes over. A new or lost member does not change the order of the others."""
    return tuple(sorted(members, key=lambda member: score(rm, member), reverse=True))


def score(rm: str, member: str) -> bytes:
    return hashlib.blake2b(f"{rm} {member}".encode(), digest_size=8).digest()
