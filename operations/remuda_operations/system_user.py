"""The operator where no keys are in use: the user of the operating system."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from collections.abc import Iterable, Iterator

import structlog

from remuda_bus.settings import is_loopback
from remuda_operations.operators import Operator, usable_groups

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
    return Operator(user.pw_name, usable_groups(_names(os.getgrouplist(user.pw_name, user.pw_gid))))


def _names(numbers: Iterable[int]) -> Iterator[str]:
    for number in numbers:
        with contextlib.suppress(KeyError):
            yield grp.getgrgid(number).gr_name
