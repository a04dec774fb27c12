"""Sets of demands as bits, and lists that are searched for them, against plain sorting and looking everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.index import demands, trees
from remuda_core.index.demands import DemandBits, bit_of, rounded_down
from remuda_core.index.ordered import Rank, Vector, covers
from remuda_core.index.trees import BitTree, PassBudget

seeds = st.integers(0, 10**9)


@dataclass(eq=False)
class Item:
    rank: Rank
    bits: int


@given(seeds, st.sampled_from((10, 100, 1_000)), st.sampled_from((4, 8, 32)))
def test_a_bit_tree_finds_what_looking_everywhere_finds(seed: int, steps: int, most_children: int) -> None:
    random, items = Random(seed), list[Item]()
    order: BitTree[Item] = BitTree(PassBudget())
    comings = random.choice((0.2, 0.5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "MOST_CHILDREN", most_children)
        for number in range(steps):
            what, rank = random.random(), (random.choice((0, 0.5, random.random())), number)
            bits = sum(1 << random.randrange(8) for _ in range(random.randrange(3)))
            if what < comings or not items:
                items.append(Item(rank, bits))
                order.put(items[-1], rank, bits)
                continue
            item = random.choice(items)
            if what < 0.55:
                items.remove(item)
                order.remove(item.rank)
            elif what < 0.65:
                order.move(item.rank, rank)
                item.rank = rank
            elif what < 0.7:
                near = (*item.rank, random.choice((-1, 1)))  # right behind, mostly between the same neighbours
                order.move(item.rank, near)
                item.rank = near
            elif what < 0.75:
                item.bits = bits
                order.set_bits(item.rank, bits)
            elif what < 0.8:
                item.bits |= bits
                order.add_bits(item.rank, bits)
            else:
                mask, start = random.randrange(256), random.choice(((), (random.random(),), item.rank))
                fitting = [each for each in items if each.bits & mask and each.rank >= start]
                assert order.first(mask, start) is min(fitting, key=lambda each: each.rank, default=None)
        assert order.items() == sorted(((each.rank, each, each.bits) for each in items), key=lambda entry: entry[0])
        assert order.size == len(items)


@given(seeds, st.sampled_from((4, 1_024)), st.sampled_from((3, 128)), st.sampled_from((4, 10**6)))
def test_what_a_room_covers_is_in_its_set(seed: int, numbers: int, levels: int, most: int) -> None:
    """And nothing else, as long as there are enough numbers and levels."""
    random, given_bits = Random(seed), list[tuple[Vector, int]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demands, "DEMAND_BITS", numbers)
        patch.setattr(demands, "LEVELS_KEPT", levels)
        bits = DemandBits(2)
        for _ in range(60):
            if random.random() < 0.6 or not given_bits:
                need: Vector = (random.randint(0, most), random.randint(0, most))
                given_bits.append((need, bits.give(need)))
            else:
                bits.take(given_bits.pop(random.randrange(len(given_bits)))[1])
            room = (random.randint(-1, most), random.randint(-1, most))
            found = bits.covered(room)
            for need, number in given_bits:
                if covers(room, need):
                    assert found & bit_of(number)
                elif numbers > 60 and levels > 60:
                    assert not found & bit_of(number)


@given(st.integers(0, 2**70))
def test_amounts_are_rounded_down_by_little(amount: int) -> None:
    assert amount - amount // 32 <= rounded_down(amount) <= amount
