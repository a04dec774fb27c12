"""Problems of an action, and access to queues and nodes (semantics section 4)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from remuda_proto.bounds import shown

from ...commands import Administer
from ...rules.acl import may_administer
from ...state import Application, Partition, Queue


class Problem(NamedTuple):
    """`soft`: the action is possible, and `force` allows it."""

    text: str
    soft: bool = False


def problems_of_access(queue: Queue, command: Administer) -> Iterator[Problem]:
    """The operator may administer the queue by its adminacl, or by that of a queue above. That the operator is a
    scheduler administrator does not count (001)."""
    if not may_administer([above.settings for above in queue.path_to_root], command.operator, command.groups):
        groups = f" of {shown(','.join(command.groups))}" if command.groups else ""
        yield Problem(
            f"operator {shown(command.operator)}{groups} may not administer queue {queue.path}, "
            "expected a user or group in its adminacl or in that of a queue above"
        )


def problems_of_nodes(command: Administer) -> Iterator[Problem]:
    """Nodes belong to no queue: only scheduler administrators may act on them."""
    if not command.scheduler_administrator:
        yield Problem(
            f"operator {shown(command.operator)} may not administer nodes, expected a scheduler administrator"
        )


def running_application(
    partition: Partition, command: Administer, application_id: str
) -> Generator[Problem, None, Application | None]:
    """Yields why the operator may not act on the application. Returns the application; None: there is nothing to act
    on."""
    application = partition.applications.get(application_id)
    if application is None:
        yield Problem(f"applicationID {shown(application_id)} does not exist")
        return None
    if application.terminal:
        state = application.state
        yield Problem(f"applicationID {shown(application_id)} is {state}, expected one that has not ended")
        return None
    yield from problems_of_access(application.queue, command)
    return application


def why(command: Administer, what: str) -> str:
    """The reason of an effect, for the RM and for people: "killed by alice: runs wild"."""
    return f"{what} by {command.operator}{f': {command.reason}' if command.reason else ''}"
