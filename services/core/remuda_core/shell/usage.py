"""Usage by user and group in each queue, computed on request: of users everything they use, of groups what limits count
for them; and the limits of users and groups that use nothing."""

from __future__ import annotations

from dataclasses import dataclass

from remuda_operations.queries.rows import FairShare

from ..rules.resource import Sums, sums
from ..settings import Limit
from ..state import Partition
from .fair_shares import FairShares


@dataclass(slots=True)
class Usage:
    """`kind`: user or group. `queue`: the path; usage includes all queues below it."""

    kind: str
    name: str
    queue: str
    used: Sums
    applications: int = 0
    running: int = 0
    limit: Limit | None = None
    fair_share: FairShare | None = None


def usage_of(partition: Partition, fair_shares: FairShares | None = None) -> list[Usage]:
    """Usage in all queues, sorted by kind, name and queue; with `fair_shares` also of users who have used something in
    the past."""
    found: dict[tuple[str, str, str], Usage] = {}
    for application in partition.applications.values():
        if application.terminal:
            continue
        for queue in application.queue.path_to_root:
            key = ("user", application.user, queue.path)
            usage = found.get(key)
            if usage is None:
                usage = found[key] = Usage(*key, sums())
            usage.applications += 1
            usage.running += application.counts_as_running
            for name, amount in application.allocated.items():
                usage.used[name] += amount
    for queue in partition.queues.values():
        for tracker in queue.trackers.values():
            key = (tracker.kind, tracker.name, queue.path)
            usage = found.get(key)
            if usage is None:
                usage = found[key] = Usage(*key, tracker.used, tracker.members, tracker.running)
            usage.limit = tracker.limit
        for limit in queue.settings.limits:
            for kind, names in (("user", limit.users), ("group", limit.groups)):
                for name in names:
                    usage = found.setdefault((kind, name, queue.path), Usage(kind, name, queue.path, sums()))
                    usage.limit = usage.limit or limit
        shares = fair_shares.of_users(partition, queue) if fair_shares is not None else {}
        for user, share in shares.items():
            usage = found.setdefault(("user", user, queue.path), Usage("user", user, queue.path, sums()))
            usage.fair_share = share
    return [usage for _, usage in sorted(found.items())]
