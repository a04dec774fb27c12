"""Access to queues, for submission and for administration (001, Access Control Lists)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from remuda_proto.access_list import AccessList

from ..settings import QueueSettings

_read = lru_cache(maxsize=4_096)(AccessList.read)


def allows(acl: str, user: str, groups: Iterable[str]) -> bool:
    return _read(acl).allows(user, groups)


def may_administer(settings: Iterable[QueueSettings], user: str, groups: Iterable[str]) -> bool:
    """The user may administer a queue. `settings`: of the queue and all queues above it; the admin ACL of any of them
    suffices. The scheduler's ACL gives no right to a queue."""
    groups = tuple(groups)
    return any(allows(s.admin_acl, user, groups) for s in settings)


def may_submit(settings: Iterable[QueueSettings], user: str, groups: Iterable[str]) -> bool:
    """The user may submit to a queue. `settings`: of the queue and all queues above it; the submit or admin ACL of any
    of them suffices."""
    groups = tuple(groups)
    return any(allows(s.submit_acl, user, groups) or allows(s.admin_acl, user, groups) for s in settings)


class InTree(Protocol):
    """A queue in its tree. The queues of the state are that."""

    @property
    def settings(self) -> QueueSettings: ...
    @property
    def path_to_root(self) -> Sequence[InTree]: ...


def admin_acls(queue: InTree) -> tuple[str, ...]:
    """The admin ACLs of the queue and of all queues above it that have one, from the queue upwards: who administers
    it."""
    return tuple(dict.fromkeys(acl for above in queue.path_to_root if (acl := above.settings.admin_acl.strip())))
