"""The operator where no keys are in use: the user of the operating system."""

from __future__ import annotations

import grp
import os
import pwd

from remuda_bus import limits
from remuda_bus.operators import Operator, encode
from remuda_proto.names import GROUP


def user_of_the_system() -> Operator:
    """The user who runs this process, with as many groups as fit into a subject. Raises ValueError for a user without a
    usable name."""
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        raise ValueError(
            f"the user with the number {os.geteuid()} has no name, by which access lists know it"
        ) from None
    groups: list[str] = []
    size = 0
    for number in os.getgrouplist(user.pw_name, user.pw_gid):
        try:
            name = grp.getgrgid(number).gr_name
        except KeyError:
            continue
        size += len(encode(name)) + 1
        if len(groups) < limits.OPERATOR_GROUPS and size <= limits.OPERATOR_GROUPS_CHARACTERS:
            groups += [name] if GROUP.matches(name) and name not in groups else []
    return Operator(user.pw_name, tuple(groups))
