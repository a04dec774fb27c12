"""A list in the order of rank that finds the first item with room for a need in a logarithm of steps.

A RankedTree in which the bits say which needs are covered below a branch (`needs.Needs`): since each need has a bit of
its own, an item below one branch with much of one resource and another with much of another do not mislead.

An item may be hidden (`room = HIDDEN`) and shown again, with the room it had, at no cost while it is listed; a search
that comes across it may unlist it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Generic

from ..limits import NEEDS_KEPT, STEPS_PER_SEARCH
from .fit_list import HIDDEN, Rank, T, Vector, covers
from .needs import Needs
from .ranked_tree import Branch, Path, RankedTree, portions
from .work import Work

# A search that was misled by so many items for each that is listed pays for other needs getting bits.
WORTH_RENEWING = 4


class FitTree(RankedTree, Generic[T]):
    __slots__ = ("_bits", "_found", "_misled", "_work", "needs")

    def __init__(self, width: int, work: Work) -> None:
        """`width`: length of the vectors. `work`: of which searches take a step for each branch and each item that
        they look into."""
        super().__init__()
        self.needs = Needs(width)
        self._bits: dict[Vector, int] = {}  # of needs that were searched for
        self._work = work
        self._misled = 0  # by how many items since bits were given to other needs
        self._found: tuple[Path, Branch, int] = ([], self._root, 0)

    def fill(self, ranked: list[tuple[Rank, T]]) -> Iterator[None]:
        """The empty tree, with items in the order of their ranks. Yields after each branch."""
        self.size = len(ranked)
        level: list[Branch] = []
        for some in portions(ranked):
            for rank, item in some:
                item.rank = rank
            items = [item for _, item in some]
            covered = [self.needs.covered(item.room) for item in items]
            level.append(Branch(True, [rank for rank, _ in some], covered, items))
            yield
        while len(level) > 1:
            above = []
            for branches in portions(level):
                covered = [reduce(or_, branch.covered) for branch in branches]
                above.append(Branch(False, [branch.ranks[0] for branch in branches], covered, branches))
                yield
            level = above
        if level:
            self._root = level[0]

    def put(self, item: T, rank: Rank) -> None:
        """Ranks are unique."""
        item.rank = rank
        self._insert(item, rank, self.needs.covered(item.room))

    def remove(self, item: T) -> None:
        """Remove the item; does nothing if it is not listed."""
        rank = item.rank
        if rank is None:
            return
        item.rank = None
        path, branch = self._down_to(rank)
        self._drop(path, branch, bisect_left(branch.ranks, rank))

    def move(self, item: T, rank: Rank) -> None:
        """Its rank and its room may be others now. Listed, if it was not."""
        old = item.rank
        if old is not None:
            path, branch = self._down_to(old)
            at = bisect_left(branch.ranks, old)
            if (to := self._move_within(branch, at, rank)) >= 0:
                item.rank = rank
                branch.covered[to] = covered = self.needs.covered(item.room)
                for above, place in path:
                    above.covered[place] |= covered
                return
            self._drop(path, branch, at)
        self.put(item, rank)

    def first(self, need: Vector, start: Rank = ()) -> T | None:
        """The item of the lowest rank, from `start` on, that has room."""
        bits = self._bits.get(need)
        if bits is None or self._misled > WORTH_RENEWING * (self.size + NEEDS_KEPT):
            bits = self._describe(need)
        work = self._work
        work.left -= STEPS_PER_SEARCH
        path, branch, at, whole_from = self._from(start) if start else ([], self._root, 0, 0)
        while True:
            work.left -= 1
            covered = branch.covered
            for place in range(at, len(covered)):
                if covered[place] & bits == bits:
                    break
            else:
                if not path:
                    return None
                depth = len(path)
                branch, at = path.pop()
                if depth >= whole_from:
                    branch.covered[at] = reduce(or_, covered, 0)
                whole_from = min(whole_from, depth)
                at += 1
                continue
            if not branch.leaf:
                path.append((branch, place))
                branch, at = branch.children[place], 0
                continue
            item: T = branch.children[place]
            if covers(item.room, need):
                self._found = (path, branch, place)
                return item
            if item.room is HIDDEN:
                rank = branch.ranks[place]
                self.remove(item)
                path, branch, at, whole_from = self._from(rank)
                continue
            self._misled += 1
            covered[place] = self.needs.covered(item.room)
            at = place + 1

    def tied(self) -> bool:
        """Whether the item after the one found last has the same first place in its rank. Nothing may have come or gone
        since."""
        path, branch, at = self._found
        score = branch.ranks[at][0]
        if at + 1 < len(branch.ranks):
            return bool(branch.ranks[at + 1][0] == score)
        for above, place in reversed(path):
            if place + 1 < len(above.ranks):
                following = above.children[place + 1]
                while not following.leaf:
                    following = following.children[0]
                return bool(following.ranks[0][0] == score)
        return False

    # Searches

    def _describe(self, need: Vector) -> int:
        """The bits of all rooms that cover the need."""
        if self._misled > WORTH_RENEWING * (self.size + NEEDS_KEPT):
            self._misled = 0
            self._bits.clear()
            self._set_everywhere(self._root, self.needs.renew())
        elif len(self._bits) > 4 * NEEDS_KEPT:
            self._bits.clear()
        bits = self._bits[need] = self.needs.bits(need)
        return bits

    def _set_everywhere(self, branch: Branch, bits: int) -> None:
        branch.covered = [covered | bits for covered in branch.covered]
        if not branch.leaf:
            for child in branch.children:
                self._set_everywhere(child, bits)
