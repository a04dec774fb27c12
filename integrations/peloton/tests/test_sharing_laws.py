"""Laws of what an engine of shared hosts compares, with a core that grants what it likes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remuda_peloton.sharing import Difference, GuestAllocation, GuestAsk, Held, Wish, difference

KEYS = st.sampled_from(["k1", "k2", "k3", "k4"])
APPS = st.sampled_from(["a", "b"])
NODES = st.sampled_from(["n1", "n2"])
wishes = st.lists(st.builds(Wish, KEYS, APPS, st.one_of(st.just(""), NODES)), max_size=4, unique_by=lambda one: one.key)
asks = st.lists(
    st.builds(GuestAsk, KEYS, APPS, st.one_of(st.just(""), NODES)), max_size=5,
    unique_by=lambda one: (one.application, one.key),
)  # fmt: skip
allocations = st.lists(
    st.builds(GuestAllocation, st.uuids().map(str), KEYS, APPS, NODES, st.booleans()), max_size=6,
    unique_by=lambda one: one.uuid,
)  # fmt: skip
held = st.builds(Held, st.frozensets(APPS), asks.map(tuple), allocations.map(tuple))


def carried_out(found: Difference, before: Held) -> Held:
    """The core has handled all that is sent, and has allocated nothing yet."""
    gone = {one.uuid for one in found.release}
    withdrawn = {(one.application, one.key) for one in found.withdraw}
    kept = [one for one in before.asks if (one.application, one.key) not in withdrawn]
    asked = [GuestAsk(one.key, one.application, one.hostname) for one in found.ask]
    return Held(
        before.alive | set(found.submit), (*kept, *asked),
        tuple(one for one in before.allocations if one.uuid not in gone),
    )  # fmt: skip


@given(wishes, held)
def test_what_was_carried_out_is_level(wishes: list[Wish], held: Held) -> None:
    found = difference(wishes, held)
    again = difference(wishes, carried_out(found, held))
    assert again.is_level, again
    assert (again.preempt, again.unbacked, again.nodes) == (found.preempt, found.unbacked, found.nodes)


@given(wishes, held)
def test_each_wish_has_one_place(wishes: list[Wish], held: Held) -> None:
    """Either an allocation or an ask, and nothing that no run wants."""
    after = carried_out(difference(wishes, held), held)
    places = [one.key for one in after.asks] + [one.key for one in after.allocations]
    assert sorted(places) == sorted(wish.key for wish in wishes)


@given(wishes, held)
def test_no_allocation_of_a_run_on_its_host_is_released(wishes: list[Wish], held: Held) -> None:
    """Not even one that the core wants back: first the run ends."""
    found = difference(wishes, held)
    released = {one.uuid for one in found.release}
    for wish in (one for one in wishes if one.hostname):
        mine = [
            one
            for one in held.allocations
            if (one.key, one.application, one.node) == (wish.key, wish.application, wish.hostname)
        ]
        assert len([one for one in mine if one.uuid in released]) == max(0, len(mine) - 1)
        assert (wish.key in found.unbacked) == (not mine)


@given(held)
def test_nothing_is_left_when_nothing_is_wanted(held: Held) -> None:
    after = carried_out(difference([], held), held)
    assert not after.asks and not after.allocations


@given(wishes, held)
def test_what_is_allocated_is_placed_there(wishes: list[Wish], held: Held) -> None:
    found = difference(wishes, held)
    for key, node in found.nodes.items():
        assert any((one.key, one.node, one.releasing) == (key, node, False) for one in held.allocations)
        assert next(one for one in wishes if one.key == key).hostname == ""
