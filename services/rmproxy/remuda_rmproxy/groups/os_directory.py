"""Groups from the operating system: passwd, group, and all other sources of its name service. Blocks."""

from __future__ import annotations

import grp
import os
import pwd

from remuda_proto.bounds import shown
from remuda_rmproxy.groups.resolution import DirectoryEntry, UnusableAnswer


def look_up(user: str) -> DirectoryEntry | None:
    """Looks a user up; None: the operating system does not know the user. Raises UnusableAnswer when the primary group
    has no name.
    """
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):  # ValueError: a name that no system has, such as one with NUL
        return None
    primary = _name(entry.pw_gid)
    if primary is None:
        raise UnusableAnswer(f"the primary group {entry.pw_gid} of user {shown(user)} has no name")
    found = [_name(gid) for gid in os.getgrouplist(entry.pw_name, entry.pw_gid) if gid != entry.pw_gid]
    return DirectoryEntry(primary, [name for name in found if name is not None])


def _name(gid: int) -> str | None:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None
