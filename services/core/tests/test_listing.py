"""A listing is what sorting the dictionary each time would be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remuda_core.shell.pages import Listing


class Thing:
    def __init__(self, place: int) -> None:
        self.place = place


NAMES = st.sampled_from("abcdefghijklmnop")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES),
        st.tuples(st.just("drop"), NAMES),
        st.tuples(st.just("look"), st.integers(-1, 60)),
    )
)


@given(STEPS)
def test_it_is_what_sorting_would_be(steps: list[tuple[str, Any]]) -> None:
    entries: dict[str, Thing] = {}
    listing = Listing(entries, lambda key, thing: thing.place)
    for number, (step, what) in enumerate(steps):
        if step == "add":
            entries.pop(what, None)
            entries[what] = Thing((number * 7919) % 61 + 61 * number % 3)
            if len({thing.place for thing in entries.values()}) < len(entries):
                del entries[what]
        elif step == "drop":
            entries.pop(what, None)
        else:
            found = [(place, thing) for place, thing in listing.after(what)]
            assert found == sorted(((t.place, t) for t in entries.values() if t.place > what), key=lambda one: one[0])


def test_what_has_gone_is_forgotten() -> None:
    entries: dict[int, Thing] = {}
    listing = Listing(entries, lambda key, thing: thing.place)
    for number in range(10_000):
        entries[number] = Thing(number)
        entries.pop(number - 10, None)
        if number % 100 == 0:
            list(listing.after(None))
    assert len(list(listing.after(None))) == 10
    assert len(listing._places) < 1_000
