"""A list in the order of rank that finds the first item with room for a need in a logarithm of steps.

A B-tree by rank. Beside each child stands which needs are covered below it, as bits (`needs.Needs`): what no item
below has room for is passed over with one AND of integers, and since each need has a bit of its own, an item below one
branch with much of one resource and another with much of another do not mislead. Bits may be set that no item bears
out, never the other way round; a search that was misled puts right what misled it.

An item may be hidden (`room = HIDDEN`) and shown again, with the room it had, at no cost while it is listed; a search
that comes across it may unlist it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from ..limits import NEEDS_KEPT
from .fit_list import HIDDEN, Rank, T, Vector, covers
from .needs import Needs
from .work import Work

C = TypeVar("C")
MOST_CHILDREN = 32
# A search that was misled by so many items for each that is listed pays for other needs getting bits.
WORTH_RENEWING = 4


class _Branch:
    """Parallel lists. `children`: items in a leaf, else branches. `ranks`: of the items; of branches bounds: all that
    is below one of them ranks no lower, save below the first."""

    __slots__ = ("children", "covered", "leaf", "ranks")

    def __init__(self, leaf: bool, ranks: list[Rank], covered: list[int], children: list[Any]) -> None:
        self.leaf = leaf
        self.ranks = ranks
        self.covered = covered
        self.children = children

    def cut(self, at: int) -> _Branch:
        """All from there on, as a branch of its own."""
        right = _Branch(self.leaf, self.ranks[at:], self.covered[at:], self.children[at:])
        del self.ranks[at:], self.covered[at:], self.children[at:]
        return right

    def put(self, at: int, rank: Rank, covered: int, child: Any) -> None:
        self.ranks.insert(at, rank)
        self.covered.insert(at, covered)
        self.children.insert(at, child)

    def take_in(self, right: _Branch, rank: Rank) -> bool:
        """Its right neighbour's children, below which all ranks are at least `rank`. False if they are too many."""
        if len(self.ranks) + len(right.ranks) > MOST_CHILDREN * 3 // 4:
            return False
        if not right.leaf:
            right.ranks[0] = rank
        self.ranks += right.ranks
        self.covered += right.covered
        self.children += right.children
        return True

    def drop(self, at: int) -> None:
        del self.ranks[at], self.covered[at], self.children[at]


Path = list[tuple[_Branch, int]]


class FitTree(Generic[T]):
    __slots__ = ("_bits", "_found", "_misled", "_root", "_work", "needs", "size")

    def __init__(self, width: int, work: Work) -> None:
        """`width`: length of the vectors. `work`: of which searches take a step for each branch and each item that
        they look into."""
        self.needs = Needs(width)
        self._bits: dict[Vector, int] = {}  # of needs that were searched for
        self.size = 0
        self._work = work
        self._misled = 0  # by how many items since bits were given to other needs
        self._root = _Branch(True, [], [], [])
        self._found: tuple[Path, _Branch, int] = ([], self._root, 0)

    def fill(self, ranked: list[tuple[Rank, T]]) -> Iterator[None]:
        """The empty tree, with items in the order of their ranks. Yields after each branch."""
        self.size = len(ranked)
        level: list[_Branch] = []
        for some in _portions(ranked):
            for rank, item in some:
                item.rank = rank
            items = [item for _, item in some]
            covered = [self.needs.covered(item.room) for item in items]
            level.append(_Branch(True, [rank for rank, _ in some], covered, items))
            yield
        while len(level) > 1:
            above = []
            for branches in _portions(level):
                covered = [reduce(or_, branch.covered) for branch in branches]
                above.append(_Branch(False, [branch.ranks[0] for branch in branches], covered, branches))
                yield
            level = above
        if level:
            self._root = level[0]

    def put(self, item: T, rank: Rank) -> None:
        """Ranks are unique."""
        item.rank = rank
        covered = self.needs.covered(item.room)
        branch = self._root
        path: Path = []
        while not branch.leaf:
            at = bisect_right(branch.ranks, rank, 1) - 1
            branch.covered[at] |= covered
            path.append((branch, at))
            branch = branch.children[at]
        branch.put(bisect_left(branch.ranks, rank), rank, covered, item)
        self.size += 1
        if len(branch.ranks) > MOST_CHILDREN:
            self._split(path, branch)

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
            ranks, at = branch.ranks, bisect_left(branch.ranks, old)
            if 0 < at < len(ranks) - 1 and ranks[at - 1] < rank < ranks[at + 1]:
                ranks[at] = item.rank = rank
                branch.covered[at] = covered = self.needs.covered(item.room)
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

    def _set_everywhere(self, branch: _Branch, bits: int) -> None:
        branch.covered = [covered | bits for covered in branch.covered]
        if not branch.leaf:
            for child in branch.children:
                self._set_everywhere(child, bits)

    # The tree

    def _from(self, start: Rank) -> tuple[Path, _Branch, int, int]:
        """The place at which a search begins, and the depth from which on branches are searched from their first
        child."""
        path, branch = self._down_to(start)
        return path, branch, bisect_left(branch.ranks, start), len(path) + 1

    def _down_to(self, rank: Rank) -> tuple[Path, _Branch]:
        """The leaf where the rank is or would be, and the branches on the way."""
        path: Path = []
        branch = self._root
        while not branch.leaf:
            at = bisect_right(branch.ranks, rank, 1) - 1
            path.append((branch, at))
            branch = branch.children[at]
        return path, branch

    def _drop(self, path: Path, branch: _Branch, at: int) -> None:
        """An item of a leaf."""
        branch.drop(at)
        self.size -= 1
        if len(branch.ranks) < MOST_CHILDREN // 4 and path:
            self._merge(path, branch)

    def _split(self, path: Path, branch: _Branch) -> None:
        """The branch has too many children."""
        right = branch.cut(len(branch.ranks) // 2)
        covered = reduce(or_, branch.covered), reduce(or_, right.covered)
        if not path:
            self._root = _Branch(False, [branch.ranks[0], right.ranks[0]], [*covered], [branch, right])
            return
        above, at = path.pop()
        above.covered[at] = covered[0]
        above.put(at + 1, right.ranks[0], covered[1], right)
        if len(above.ranks) > MOST_CHILDREN:
            self._split(path, above)

    def _merge(self, path: Path, branch: _Branch) -> None:
        """The branch has few children: it goes, or goes into a neighbour with room for them."""
        above, at = path.pop()
        if not branch.ranks:
            above.drop(at)
        elif len(above.ranks) > 1:
            left = max(at - 1, 0)
            if not above.children[left].take_in(above.children[left + 1], above.ranks[left + 1]):
                return
            above.covered[left] |= above.covered[left + 1]
            above.drop(left + 1)
        if not path:
            self._lower()
        elif len(above.ranks) < MOST_CHILDREN // 4:
            self._merge(path, above)

    def _lower(self) -> None:
        """A root with one child is not needed."""
        root = self._root
        while not root.leaf and len(root.ranks) == 1:
            root = root.children[0]
        self._root = root if root.ranks else _Branch(True, [], [], [])


def _portions(children: list[C]) -> Iterator[list[C]]:
    """Each leaves room for more in a branch."""
    size = MOST_CHILDREN * 3 // 4
    return (children[start : start + size] for start in range(0, len(children), size))
