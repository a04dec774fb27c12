"""The operator where no keys are in use: the user of the operating system."""

from __future__ import annotations

import grp
import os
import pwd

import structlog

from remuda_bus import limits
from remuda_bus.operators import Operator, encode
from remuda_bus.settings import is_loopback
from remuda_proto.names import GROUP

log = structlog.get_logger()


def local_operator(host: str, has_key: bool) -> Operator | None:
    """The operator where neither clients of a server on `host` nor the processes on the bus have keys: the user who
    runs this process, as of commands on this machine. None: there is none, so clients cannot act."""
    if not is_loopback(host) or has_key:
        return None
    try:
        return user_of_the_system()
    except ValueError as error:
        log.warning("clients cannot act", because=str(error))
        return None


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
