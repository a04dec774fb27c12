"""A list in the order of rank that finds the first item with one of some bits in a logarithm of steps.

The caller keeps the rank of each item, which is the item's key here.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from .fit_list import Rank
from .ranked_tree import Path, RankedTree
from .work import Work

I = TypeVar("I")  # noqa: E741 - the item


class BitTree(RankedTree, Generic[I]):
    __slots__ = ("_work",)

    def __init__(self, work: Work) -> None:
        """`work`: of which searches take a step for each branch that they look into."""
        super().__init__()
        self._work = work

    def put(self, item: I, rank: Rank, bits: int) -> None:
        """Ranks are unique."""
        self._insert(item, rank, bits)

    def remove(self, rank: Rank) -> None:
        path, branch = self._down_to(rank)
        self._drop(path, branch, bisect_left(branch.ranks, rank))

    def move(self, old: Rank, rank: Rank) -> bool:
        """The item has another rank now. Its bits stay. Whether it still stands between the same neighbours."""
        path, branch = self._down_to(old)
        ranks, at = branch.ranks, bisect_left(branch.ranks, old)
        # At an end of a branch it stays within the bounds of the branch if it moves away from that end.
        after_left = ranks[at - 1] < rank if at else old < rank or _is_first(path)
        before_right = rank < ranks[at + 1] if at + 1 < len(ranks) else rank < old or _is_last(path)
        if after_left and before_right:
            ranks[at] = rank
            return True
        if self._move_within(branch, at, rank) >= 0:
            return False
        item, bits = branch.children[at], branch.covered[at]
        self._drop(path, branch, at)
        self._insert(item, rank, bits)
        return False

    def set_bits(self, rank: Rank, bits: int) -> None:
        """The item has other bits now."""
        path, branch = self._down_to(rank)
        branch.covered[bisect_left(branch.ranks, rank)] = bits
        for above, at in path:
            above.covered[at] |= bits

    def add_bits(self, rank: Rank, bits: int) -> None:
        """The item has these bits, too."""
        path, branch = self._down_to(rank)
        branch.covered[bisect_left(branch.ranks, rank)] |= bits
        for above, at in path:
            above.covered[at] |= bits

    def bits(self) -> int:
        """Those of all items; there may be some more."""
        return reduce(or_, self._root.covered, 0)

    def bits_of(self, rank: Rank) -> int:
        _, branch = self._down_to(rank)
        return branch.covered[bisect_left(branch.ranks, rank)]

    def first(self, mask: int, start: Rank = ()) -> I | None:
        """The item of the lowest rank, from `start` on, that has one of these bits."""
        work = self._work
        path, branch, at, whole_from = self._from(start) if start else ([], self._root, 0, 0)
        while True:
            work.left -= 1
            covered = branch.covered
            for place in range(at, len(covered)):
                if covered[place] & mask:
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
            if branch.leaf:
                item: I = branch.children[place]
                return item
            path.append((branch, place))
            branch, at = branch.children[place], 0

    def items(self) -> list[tuple[Rank, I, int]]:
        """(rank, item, its bits) of all items, for `check`."""
        found: list[tuple[Rank, Any, int]] = []
        todo = [self._root]
        while todo:
            branch = todo.pop()
            if branch.leaf:
                found += zip(branch.ranks, branch.children, branch.covered, strict=True)
            else:
                todo += branch.children
        return sorted(found, key=lambda entry: entry[0])


def _is_first(path: Path) -> bool:
    """Whether no branch of the tree stands before the one to which the path leads."""
    return all(not at for _, at in path)


def _is_last(path: Path) -> bool:
    return all(at + 1 == len(above.ranks) for above, at in path)
