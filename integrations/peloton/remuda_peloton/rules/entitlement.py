"""Entitlements of the pools of a tree: reservations first, then what pools need by share, then what is left by share.

All pools of one level are computed at once, with arrays of pools × kinds. Pools are in breadth-first order, so that
the pools of a level, and the children of a pool, are slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..limits import EPSILON, ROUNDS
from .pools import ROOT, STATIC, KindConfig, Pools
from .resources import KINDS, Vector

Amounts = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.intp]


class PoolTree:
    """A tree of pools as arrays: the inputs that stay the same from one calculation to the next."""

    def __init__(self, pools: Pools) -> None:
        children: dict[str, list[str]] = {}
        for one in pools.values():
            if one.id != ROOT:
                children.setdefault(one.parent, []).append(one.id)
        self.ids: list[str] = [ROOT]
        self.levels: list[Level] = []
        above = [ROOT]
        while above:
            start, sizes, parents = len(self.ids), [], []
            for number, pool_id in enumerate(above, start - len(above)):
                below = children.get(pool_id, ())
                if below:
                    self.ids.extend(below)
                    sizes.append(len(below))
                    parents.append(number)
            above = self.ids[start:]
            if above:
                self.levels.append(Level(start, len(self.ids), parents, sizes))
        configs = [pools[pool_id] for pool_id in self.ids[1:]]
        by_kind = [{one.kind: one for one in config.resources} for config in configs]
        self.reservation = _table([[_amount(one, kind, "reservation", 0.0) for kind in KINDS] for one in by_kind])
        self.limit = _table([[_amount(one, kind, "limit", 0.0) for kind in KINDS] for one in by_kind])
        self.share = _table([[_amount(one, kind, "share", 1.0) for kind in KINDS] for one in by_kind])
        self.static = (
            _table([[float(kind in one and one[kind].type == STATIC) for kind in KINDS] for one in by_kind]) > 0
        )
        self.slack_limit = _table([config.slack_limit() for config in configs])
        self.leaf = np.ones(len(self.ids), dtype=bool)
        for level in self.levels:
            self.leaf[level.parents] = False


class Level:
    """The pools from `start` to `end`, in groups of children of one pool. `parents`: the numbers of these pools."""

    def __init__(self, start: int, end: int, parents: list[int], sizes: list[int]) -> None:
        self.start, self.end = start, end
        self.parents: Indexes = np.array(parents, dtype=np.intp)
        self.first: Indexes = np.concatenate(([0], np.cumsum(sizes[:-1]))).astype(np.intp)
        self.group: Indexes = np.repeat(np.arange(len(sizes)), sizes)

    def sums(self, amounts: Amounts) -> Amounts:
        """The sum of each group."""
        return np.asarray(np.add.reduceat(amounts, self.first, axis=0))

    def any(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return np.asarray(np.logical_or.reduceat(flags, self.first, axis=0))


class Usage:
    """Demand and allocations per pool and kind, in the order of `PoolTree.ids`, summed up the tree."""

    def __init__(
        self, tree: PoolTree, demand: Amounts, slack_demand: Amounts, held: Amounts, slack_held: Amounts
    ) -> None:
        """Rows of inner pools are ignored. `held`: by tasks that are not revocable, `slack_held`: by revocable ones."""
        self.demand, self.slack_demand, self.held, self.slack_held = tables = (
            demand.copy(), slack_demand.copy(), held.copy(), slack_held.copy(),
        )  # fmt: skip
        for level in reversed(tree.levels):
            for table in tables:
                table[level.parents] = level.sums(table[level.start : level.end])


class Entitlements:
    """Entitlements per pool and kind, in the order of `PoolTree.ids`."""

    def __init__(self, entitlement: Amounts, non_slack: Amounts, slack: Amounts) -> None:
        self.entitlement, self.non_slack, self.slack = entitlement, non_slack, slack


class Steps(NamedTuple):
    """The amounts that the pools of a level get in each pass, per pool of the level and kind. `need`: allocation,
    demand and slack, up to the limit."""

    level: Level
    need: Amounts
    reserved: Amounts
    by_need: Amounts
    entitlement: Amounts


def calculate(
    tree: PoolTree,
    usage: Usage,
    capacity: Vector,
    slack_cpu: float,
    scale: bool = False,
    spread: bool = False,
    steps: list[Steps] | None = None,
) -> Entitlements:
    """Calculate the entitlements of all pools. `capacity`: of all hosts; `slack_cpu`: cores of slack. `scale`:
    reservations of children are scaled down to what their parent has. `spread`: what a limit cuts off goes to its
    siblings. Peloton does neither. `steps`: is given the steps of each level."""
    entitlement, slack, non_slack = (np.zeros((len(tree.ids), len(KINDS))) for _ in range(3))
    entitlement[0], non_slack[0], slack[0, 0] = capacity, capacity, slack_cpu
    slack_wish = np.zeros_like(slack)
    slack_wish[1:] = np.minimum(tree.slack_limit, usage.slack_held[1:] + usage.slack_demand[1:])
    busy = usage.held + usage.demand
    for level in tree.levels:
        here, own = slice(level.start, level.end), slice(level.start - 1, level.end - 1)
        share, limit, reservation = tree.share[own], tree.limit[own], tree.reservation[own]
        need = np.minimum(busy[here] + slack_wish[here], limit)
        got = np.where(tree.static[own], reservation, np.minimum(need, reservation))
        unmet = np.maximum(0.0, need - reservation)
        if scale:
            got = _scaled(level, got, entitlement[level.parents])
        left = _clamped(entitlement[level.parents] - level.sums(got))
        wanting = level.sums(np.where(need > reservation, share, 0.0))
        reserved = got.copy() if steps is not None else got
        left = _by_need(level, share, got, unmet, left, wanting)
        entitlement[here] = _by_share(level, share, got, left, limit, spread)
        if steps is not None:
            steps.append(Steps(level, need, reserved, got, entitlement[here].copy()))
    for level in tree.levels:
        here, own = slice(level.start, level.end), slice(level.start - 1, level.end - 1)
        for_slack = np.minimum(_clamped(entitlement[here] - busy[here]), slack_wish[here])
        non_slack[here] = np.where(for_slack == 0, entitlement[here], _clamped(entitlement[here] - for_slack))
        for_slack[:, 0] = usage.slack_held[here, 0]
        cpu, share = for_slack[:, :1].copy(), tree.share[own, :1]
        left = _clamped(slack[level.parents, :1] - level.sums(cpu))
        unmet = usage.slack_demand[here, :1].copy()
        left = _by_need(level, share, cpu, unmet, left, level.sums(share))
        slack[here] = for_slack
        slack[here, :1] = _by_share(level, share, cpu, left, np.full_like(cpu, np.inf), False)
    return Entitlements(entitlement, non_slack, slack)


def _by_need(level: Level, share: Amounts, got: Amounts, unmet: Amounts, left: Amounts, wanting: Amounts) -> Amounts:
    """Pass 2: what is left goes by share to pools that need more, in rounds. `wanting`: the shares of pools that needed
    more at the beginning; it is not reduced as pools become satisfied. Changes `got` and `unmet`; returns what is left
    after it. A round that gives nothing ends the pass: only pools with share 0 need more."""
    for _ in range(ROUNDS):
        active = (left > EPSILON) & level.any(unmet > EPSILON) & (wanting > 0)
        if not active.any():
            return left
        rate = np.divide(left, wanting, out=np.zeros_like(left), where=active)
        given = np.where(unmet >= EPSILON, np.minimum(share * rate[level.group], unmet), 0.0)
        given_sums = level.sums(given)
        got += given
        unmet -= given
        left = _clamped(left - given_sums)
        if not given_sums.any():
            return left
    return _fill(level, share, got, unmet, left)


def _fill(level: Level, share: Amounts, got: Amounts, unmet: Amounts, left: Amounts) -> Amounts:
    """The result that the rounds approach: each pool gets its share times one rate, at most what it needs."""
    for group, kind in np.argwhere((left > EPSILON) & level.any((unmet > EPSILON) & (share > 0))):
        members = np.flatnonzero((level.group == group) & (share[:, kind] > 0) & (unmet[:, kind] > 0))
        ratio = unmet[members, kind] / share[members, kind]
        rest, shares = left[group, kind], share[members, kind].sum()
        for place in np.argsort(ratio, kind="stable"):
            member = members[place]
            given = min(unmet[member, kind], rest * share[member, kind] / shares)
            got[member, kind] += given
            unmet[member, kind] -= given
            rest -= given
            shares -= share[member, kind]
        left[group, kind] = max(0.0, rest)
    return left


def _by_share(level: Level, share: Amounts, got: Amounts, left: Amounts, limit: Amounts, spread: bool) -> Amounts:
    """Pass 3: what is left goes to all pools by share, up to their limits."""
    for _ in range(ROUNDS if spread else 1):
        counted = np.where(got < limit - EPSILON, share, 0.0) if spread else share
        shares = level.sums(counted)
        active = (left > EPSILON) & (shares > 0)
        if not active.any():
            break
        rate = np.divide(left, shares, out=np.zeros_like(left), where=active)
        more = np.where(active[level.group], np.minimum(limit, got + counted * rate[level.group]), got)
        left = _clamped(left - level.sums(more - got))
        got = more
    return got


def _scaled(level: Level, got: Amounts, available: Amounts) -> Amounts:
    reserved = level.sums(got)
    factor = np.divide(available, reserved, out=np.ones_like(reserved), where=reserved > available)
    return np.asarray(got * factor[level.group])


def _clamped(amounts: Amounts) -> Amounts:
    return np.where(amounts >= EPSILON, amounts, 0.0)


def _table(rows: Sequence[Sequence[float]]) -> Amounts:
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(KINDS))


def _amount(one: dict[str, KindConfig], kind: str, field: str, default: float) -> float:
    return float(getattr(one[kind], field)) if kind in one else default
