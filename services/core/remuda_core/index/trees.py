"""Trees in the order of ranks, in which a search passes over whole branches with one AND of bits.

    RankedTree      what both trees have in common: a B-tree, and beside each child the OR of all bits below it
      BitTree       finds the first item with one of some bits                   ask classes of a leaf, dormant queues
      FitTree       finds the first item with room for a need                    node groups
    CoveredNeeds    says as bits which needs a room covers, for FitTree
    PassBudget      the steps that a pass may still take; each branch that a search looks into takes one

A bit of a branch may be set although no item below has it, never the other way round. A search that was misled puts
right what misled it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from ..limits import NEEDS_KEPT, STEPS_PER_PASS, STEPS_PER_SEARCH
from .ordered import HIDDEN, Rank, T, Vector, covers


class PassBudget:
    """The work that a pass may do in a partition, counted in steps of some microseconds.

    A step is a node group or a branch that a search looks into, a leaf queue that is searched for the asks of a freed
    node, and so on; longer work counts as several steps. The core has no clock, so a pass is bounded by these counts.
    It ends between two placements, and the next pass continues there."""

    __slots__ = ("_patience", "found", "left")

    def __init__(self) -> None:
        # The steps that the pass may still take. The last placement may have taken more, so it may be negative.
        self.left = STEPS_PER_PASS
        # Whether the pass has found an ask that may be next.
        self.found = True
        self._patience = 1

    def begin_pass(self, steps: int) -> None:
        """Allow so many steps. After a pass that ran out of them before it had found anything, allow the next one twice
        as many: it begins its search anew, and would not come further."""
        self._patience = 2 * self._patience if self.left <= 0 and not self.found else 1
        self.left, self.found = steps * self._patience, False


C = TypeVar("C")
MOST_CHILDREN = 32


@dataclass(slots=True, eq=False)
class Branch:
    """A branch of a tree: three lists of the same length."""

    # Whether the children are items, else they are branches.
    leaf: bool
    # The rank of each item. Of a branch a bound: all items below it rank no lower, except below the first branch.
    ranks: list[Rank]
    # The bits of each item. Of a branch at least the OR of the bits of all items below it.
    covered: list[int]
    children: list[Any]

    def cut(self, at: int) -> Branch:
        """Remove the children from there on, and return them as a branch of their own."""
        right = Branch(self.leaf, self.ranks[at:], self.covered[at:], self.children[at:])
        del self.ranks[at:], self.covered[at:], self.children[at:]
        return right

    def put(self, at: int, rank: Rank, covered: int, child: Any) -> None:
        self.ranks.insert(at, rank)
        self.covered.insert(at, covered)
        self.children.insert(at, child)

    def take_in(self, right: Branch, rank: Rank) -> bool:
        """Take the children of the right neighbour, below which all ranks are at least `rank`. Returns False, and takes
        none, if they are too many."""
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


# The branches from the root down, each with the place of the child that the way leads to.
Path = list[tuple[Branch, int]]


class RankedTree:
    """The parts that both trees have in common, whatever their bits mean."""

    __slots__ = ("_root", "size")

    def __init__(self) -> None:
        self.size = 0
        self._root = Branch(True, [], [], [])

    def _insert(self, item: Any, rank: Rank, covered: int) -> None:
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
        """The way to the leaf where the rank is or would be, and that leaf."""
        path: Path = []
        branch = self._root
        while not branch.leaf:
            at = bisect_right(branch.ranks, rank, 1) - 1
            path.append((branch, at))
            branch = branch.children[at]
        return path, branch

    def _drop(self, path: Path, branch: Branch, at: int) -> None:
        """Remove an item of a leaf."""
        branch.drop(at)
        self.size -= 1
        if len(branch.ranks) < MOST_CHILDREN // 4 and path:
            self._merge(path, branch)

    def _split(self, path: Path, branch: Branch) -> None:
        """Split a branch with too many children."""
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
        """Remove a branch that has no children, or move its few children into a neighbour with room for them."""
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
        """Replace a root that has one child by that child."""
        root = self._root
        while not root.leaf and len(root.ranks) == 1:
            root = root.children[0]
        self._root = root if root.ranks else Branch(True, [], [], [])


def portions(children: list[C]) -> Iterator[list[C]]:
    """The children in lists for one branch each, with room for more."""
    size = MOST_CHILDREN * 3 // 4
    return (children[start : start + size] for start in range(0, len(children), size))


I = TypeVar("I")  # noqa: E741 - the item


class BitTree(RankedTree, Generic[I]):
    """A list in the order of ranks that finds the first item with one of some bits, in O(log n).

    The caller keeps the rank of each item, which is the key of the item here. Ranks are unique."""

    __slots__ = ("_budget",)

    def __init__(self, budget: PassBudget) -> None:
        """`budget`: of which searches take a step for each branch that they look into."""
        super().__init__()
        self._budget = budget

    def put(self, item: I, rank: Rank, bits: int) -> None:
        """Add an item."""
        self._insert(item, rank, bits)

    def remove(self, rank: Rank) -> None:
        """Remove the item of this rank, which is listed."""
        path, branch = self._down_to(rank)
        self._drop(path, branch, bisect_left(branch.ranks, rank))

    def move(self, old: Rank, rank: Rank) -> bool:
        """Give an item another rank; its bits stay. Returns whether it still stands between the same neighbours."""
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
        """Give the item of this rank other bits."""
        path, branch = self._down_to(rank)
        branch.covered[bisect_left(branch.ranks, rank)] = bits
        for above, at in path:
            above.covered[at] |= bits

    def add_bits(self, rank: Rank, bits: int) -> None:
        """Give the item of this rank these bits, too."""
        path, branch = self._down_to(rank)
        branch.covered[bisect_left(branch.ranks, rank)] |= bits
        for above, at in path:
            above.covered[at] |= bits

    def bits(self) -> int:
        """The bits of all items; there may be some more."""
        return reduce(or_, self._root.covered, 0)

    def bits_of(self, rank: Rank) -> int:
        """The bits of the item of this rank, for `check`."""
        _, branch = self._down_to(rank)
        return branch.covered[bisect_left(branch.ranks, rank)]

    def first(self, mask: int, start: Rank = ()) -> I | None:
        """The item of the lowest rank, from `start` on, that has one of these bits."""
        budget = self._budget
        path, branch, at, whole_from = self._from(start) if start else ([], self._root, 0, 0)
        while True:
            budget.left -= 1
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
        """The rank, the item and its bits of all items, for `check`."""
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
    """Whether the path leads to the first branch of the tree."""
    return all(not at for _, at in path)


def _is_last(path: Path) -> bool:
    return all(at + 1 == len(above.ranks) for above, at in path)


# A search that was misled by so many items for each that is listed pays for other needs getting bits.
WORTH_RENEWING = 4


class FitTree(RankedTree, Generic[T]):
    """A list in the order of ranks that finds the first item with room for a need, in O(log n).

    The bits say which needs are covered below a branch. Each need has a bit of its own, so an item below a branch with
    much of one resource and another item with much of another resource do not mislead a search, as they would if a
    branch had the most of each resource.

    An item may be hidden (`room = HIDDEN`) and shown again, with the room it had, at no cost while it is listed; a
    search that comes across it may unlist it."""

    __slots__ = ("_bits", "_budget", "_found", "_misled", "needs")

    def __init__(self, width: int, budget: PassBudget) -> None:
        """`width`: length of the vectors. `budget`: of which searches take a step for each branch and each item that
        they look into."""
        super().__init__()
        self.needs = CoveredNeeds(width)
        self._bits: dict[Vector, int] = {}  # of needs that were searched for
        self._budget = budget
        self._misled = 0  # by how many items since bits were given to other needs
        self._found: tuple[Path, Branch, int] = ([], self._root, 0)

    def fill(self, ranked: list[tuple[Rank, T]]) -> Iterator[None]:
        """Put items into the empty tree, in the order of their ranks. Yields after each branch."""
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
        """Add an item that is not listed. Ranks are unique."""
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
        """Give the item this rank, and note its room. Adds the item if it is not listed."""
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
        budget = self._budget
        budget.left -= STEPS_PER_SEARCH
        path, branch, at, whole_from = self._from(start) if start else ([], self._root, 0, 0)
        while True:
            budget.left -= 1
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
        """Whether the item after the one found last has the same first place in its rank. Items must not have been
        added or removed since."""
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


class CoveredNeeds:
    """Says which needs a room covers, as the bits of one integer.

    Up to NEEDS_KEPT needs have a bit each. `covered(room)` has the bits of all needs that the room covers: a bisection
    and an AND per resource, however many needs there are. A need without a bit is described by the needs that it covers
    itself: a room that lacks one of their bits does not cover it.

    A bit that stands for no need is set in every room. A need that takes it over finds it set in rooms that do not
    cover it, never the other way round. So integers that were kept may name too many rooms, and never too few."""

    __slots__ = ("_bits", "_free", "_given", "_levels", "_masks", "_used")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self._bits: dict[Vector, int] = {}  # the bit of each need that has one
        self._given = 0  # the OR of these bits
        self._used = 0  # the bits of the needs that were asked about since bits were last taken
        self._free: list[int] = []  # the bits that needs had before
        # For each resource the amounts that are needed of it, and for each interval between two of them the needs to
        # which an amount in it is enough.
        self._levels: list[list[float]] = []
        self._masks: list[list[int]] = []
        self._clear(width)

    def covered(self, room: Vector) -> int:
        """The bits of the needs that the room covers. The hot path of each placement."""
        found = -1
        for amount, levels, masks in zip(room, self._levels, self._masks):  # noqa: B905 - the hot path
            found &= masks[bisect_right(levels, amount)]
        return found

    def bits(self, need: Vector) -> int:
        """The bits that `covered` returns for every room that covers the need. The need gets a bit if one is free."""
        bit = self._bits.get(need)
        if bit is None and len(self._bits) < NEEDS_KEPT:
            bit = self._bits[need] = self._free.pop() if self._free else 1 << len(self._bits)
            self._add(need, bit)
            self._given |= bit
        self._used |= bit or 0
        return self.covered(need) & self._given

    def _add(self, need: Vector, bit: int) -> None:
        for amount, levels, masks in zip(need, self._levels, self._masks, strict=True):
            place = bisect_left(levels, amount)
            if place == len(levels) or levels[place] != amount:
                levels.insert(place, amount)
                masks.insert(place, masks[place])
            masks[: place + 1] = [mask & ~bit for mask in masks[: place + 1]]

    def renew(self) -> int:
        """Take up to half of the bits, of needs that were not asked about since bits were last taken, if there are any.
        Returns these bits: they are to be set in all that `covered` has returned."""
        unused = [need for need, bit in self._bits.items() if not bit & self._used]
        freed = (unused or list(self._bits))[: NEEDS_KEPT // 2]
        bits = [self._bits.pop(need) for need in freed]
        self._free += bits
        self._given &= ~sum(bits)
        self._used = 0
        self._clear(len(self._levels))
        for need, bit in self._bits.items():
            self._add(need, bit)
        return sum(bits)

    def _clear(self, width: int) -> None:
        self._levels = [[] for _ in range(width)]
        self._masks = [[(1 << NEEDS_KEPT) - 1] for _ in range(width)]
