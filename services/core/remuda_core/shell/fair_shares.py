"""The past use of queues and users, beside the use that was due to them (semantics section 23): for people.

Siblings are compared: the queues of one parent, or the users of one leaf. Ranks follow from the same means and weights
(`index.moments`), without these sums.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from remuda_operations.queries.rows import FairShare
from remuda_proto.fair import WEIGHT_ONE

from ..limits import SUMS_KEPT_S, SUMS_REST
from ..rules.properties import fair_weight, user_weights
from ..state import Account, Partition, Queue, State
from ..state.accounts import USER


class Sibling(NamedTuple):
    """`weight`: in thousandths. `due`: by which its share is measured."""

    name: str
    account: Account
    weight: int
    due: Mapping[str, int]


class FairShares:
    """Fair shares of one state. Groups of siblings are kept for SUMS_KEPT_S, because queries for pages follow each
    other; a group that takes long, for longer."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._of: dict[tuple[str, str, bool], tuple[float, dict[str, FairShare]]] = {}
        self._users: tuple[float, dict[tuple[str, str], dict[str, Account]]] = (0.0, {})

    def of_queue(self, partition: Partition, queue: Queue) -> FairShare | None:
        """None: its parent has no half-life."""
        parent = queue.parent
        if parent is None or queue.account is None:
            return None
        return self._group(partition, parent, of_users=False).get(queue.path)

    def of_users(self, partition: Partition, queue: Queue) -> dict[str, FairShare]:
        """The fair shares of the users of a leaf that have used something; empty: the leaf remembers none."""
        if not queue.leaf or not queue.memory.half_life_ms or not self._accounts(partition, queue):
            return {}
        return self._group(partition, queue, of_users=True)

    def _group(self, partition: Partition, queue: Queue, *, of_users: bool) -> dict[str, FairShare]:
        key = partition.name, queue.path, of_users
        until, found = self._of.get(key, (0.0, {}))
        if (began := time.monotonic()) >= until:
            siblings = self._siblings_by_user(partition, queue) if of_users else _children(partition, queue)
            found = shares_of(siblings, partition.total, self._state.now_ms + queue.memory.ahead_ms)
            now = time.monotonic()
            self._of[key] = now + max(SUMS_KEPT_S, SUMS_REST * (now - began)), found
        return found

    def _siblings_by_user(self, partition: Partition, queue: Queue) -> Iterable[Sibling]:
        weights = user_weights(one.settings.properties for one in queue.path_to_root)
        groups = dict[str, tuple[str, ...]]()
        if weights is not None:  # those of the first application, as in the ranking
            groups = {one.user: one.groups for one in reversed(queue.applications.values())}
        for user, account in self._accounts(partition, queue).items():
            weight = weights.of(user, groups.get(user, ())) if weights is not None else WEIGHT_ONE
            yield Sibling(user, account, weight, partition.total)

    def _accounts(self, partition: Partition, queue: Queue) -> dict[str, Account]:
        """The accounts of the users of a leaf."""
        until, found = self._users
        if (began := time.monotonic()) >= until:
            found = {}
            for key, account in self._state.accounts.items():
                if key.kind == USER and account.half_life_ms:
                    found.setdefault((key.partition, key.queue), {})[key.name] = account
            now = time.monotonic()
            self._users = now + max(SUMS_KEPT_S, SUMS_REST * (now - began)), found
        return found.get((partition.name, queue.path), {})


def _children(partition: Partition, parent: Queue) -> Iterable[Sibling]:
    for queue in parent.children.values():
        if queue.account is not None:
            weight = fair_weight(queue.settings.properties)
            yield Sibling(queue.path, queue.account, weight, queue.due_of(partition.total))


def shares_of(siblings: Iterable[Sibling], total: Mapping[str, int], at_ms: int) -> dict[str, FairShare]:
    """The shares of siblings, by name: of the resource of which they have used most of all there is, their parts of all
    that they have used, and the parts that are due to them. Either parts add up to 1."""
    group = list(siblings)
    means = {one.name: one.account.means(at_ms) for one in group}
    used: dict[str, float] = {}
    for mean in means.values():
        for name, amount in mean.items():
            used[name] = used.get(name, 0.0) + amount
    resource = max(sorted(used), key=lambda name: used[name] / total[name] if total.get(name) else 0.0, default="")
    parts = {name: _parts(group, name) for name in used}
    return {
        one.name: FairShare(
            half_life_ms=one.account.half_life_ms,
            mean={name: round(amount) for name, amount in means[one.name].items()},
            resource=resource,
            share=means[one.name].get(resource, 0.0) / used[resource] if used.get(resource) else 0.0,
            target=parts[resource][one.name] if resource else 1 / len(group),
            owes={name: round(means[one.name].get(name, 0.0) - parts[name][one.name] * used[name]) for name in used},
        )
        for one in group
    }


def _parts(siblings: Iterable[Sibling], resource: str) -> dict[str, float]:
    """Which part of a resource is due to each sibling: by weight and what is due."""
    due = {one.name: one.weight * one.due.get(resource, 0) for one in siblings}
    whole = sum(due.values())
    return {name: amount / whole if whole else 1 / len(due) for name, amount in due.items()}
