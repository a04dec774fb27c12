"""A B-tree in the order of ranks. Beside each child stands an integer: the OR of what stands beside all items below it.

A search passes over what lacks the bits it looks for with one AND, whatever is below. Bits may be set that no item
bears out, never the other way round; a search that was misled puts right what misled it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from .fit_list import Rank

C = TypeVar("C")
MOST_CHILDREN = 32


class Branch:
    """Parallel lists. `children`: items in a leaf, else branches. `ranks`: of the items; of branches bounds: all that
    is below one of them ranks no lower, save below the first."""

    __slots__ = ("children", "covered", "leaf", "ranks")

    def __init__(self, leaf: bool, ranks: list[Rank], covered: list[int], children: list[Any]) -> None:
        self.leaf = leaf
        self.ranks = ranks
        self.covered = covered
        self.children = children

    def cut(self, at: int) -> Branch:
        """All from there on, as a branch of its own."""
        right = Branch(self.leaf, self.ranks[at:], self.covered[at:], self.children[at:])
        del self.ranks[at:], self.covered[at:], self.children[at:]
        return right

    def put(self, at: int, rank: Rank, covered: int, child: Any) -> None:
        self.ranks.insert(at, rank)
        self.covered.insert(at, covered)
        self.children.insert(at, child)

    def take_in(self, right: Branch, rank: Rank) -> bool:
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


Path = list[tuple[Branch, int]]


class RankedTree:
    """The parts that trees have in common, whatever their bits mean."""

    __slots__ = ("_root", "size")

    def __init__(self) -> None:
        self.size = 0
        self._root = Branch(True, [], [], [])

    def _insert(self, item: Any, rank: Rank, covered: int) -> None:
        """Ranks are unique."""
        branch = self._root
        while not branch.leaf:
            at = bisect_right(branch.ranks, rank, 1) - 1
            branch.covered[at] |= covered
            branch = branch.children[at]
        branch.put(bisect_left(branch.ranks, rank), rank, covered, item)
        self.size += 1
        if len(branch.ranks) > MOST_CHILDREN:
            self._split(*self._down_to(rank))

    def _move_within(self, branch: Branch, at: int, rank: Rank) -> int:
        """Give an item of a leaf another rank, if it stays within the leaf. Its place there; -1: it does not stay."""
        ranks = branch.ranks
        if not ranks[0] < rank < ranks[-1]:
            return -1
        to = bisect_left(ranks, rank)
        to -= to > at
        if to == at:
            ranks[at] = rank
        else:
            item, covered = branch.children[at], branch.covered[at]
            branch.drop(at)
            branch.put(to, rank, covered, item)
        return to

    def _from(self, start: Rank) -> tuple[Path, Branch, int, int]:
        """The place at which a search begins, and the depth from which on branches are searched from their first
        child."""
        path, branch = self._down_to(start)
        return path, branch, bisect_left(branch.ranks, start), len(path) + 1

    def _down_to(self, rank: Rank) -> tuple[Path, Branch]:
        """The leaf where the rank is or would be, and the branches on the way."""
        path: Path = []
        branch = self._root
        while not branch.leaf:
            at = bisect_right(branch.ranks, rank, 1) - 1
            path.append((branch, at))
            branch = branch.children[at]
        return path, branch

    def _drop(self, path: Path, branch: Branch, at: int) -> None:
        """An item of a leaf."""
        branch.drop(at)
        self.size -= 1
        if len(branch.ranks) < MOST_CHILDREN // 4 and path:
            self._merge(path, branch)

    def _split(self, path: Path, branch: Branch) -> None:
        """The branch has too many children."""
        right = branch.cut(len(branch.ranks) // 2)
        covered = reduce(or_, branch.covered), reduce(or_, right.covered)
        if not path:
            self._root = Branch(False, [branch.ranks[0], right.ranks[0]], [*covered], [branch, right])
            return
        above, at = path.pop()
        above.covered[at] = covered[0]
        above.put(at + 1, right.ranks[0], covered[1], right)
        if len(above.ranks) > MOST_CHILDREN:
            self._split(path, above)

    def _merge(self, path: Path, branch: Branch) -> None:
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
        self._root = root if root.ranks else Branch(True, [], [], [])


def portions(children: list[C]) -> Iterator[list[C]]:
    """Each leaves room for more in a branch."""
    size = MOST_CHILDREN * 3 // 4
    return (children[start : start + size] for start in range(0, len(children), size))
