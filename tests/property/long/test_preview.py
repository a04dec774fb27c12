"""Allocations and preemptions of a preview are those of the same change on the same state.

The preview is played on a copy, as a follower has it (restored from a snapshot), the change on the live core with its
live index."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.check import check, digest
from remuda_core.commands import Configure
from remuda_core.decide.names import plain
from remuda_core.facts import ConfigurationRefused
from remuda_core.trials.play import copy_of, play
from remuda_core.trials.preview import as_of_rm, preview
from tests.property.storm import Storm

# Rows of a list: all.
EVERY = 10**9
PASSES = 4


@given(st.integers(0, 2**32), st.integers(20, 120))
def test_what_it_says_is_what_happens(seed: int, steps: int) -> None:
    compare(seed, steps)


@pytest.mark.parametrize("seed", range(4))
def test_what_it_says_of_long_storms(seed: int) -> None:
    compare(seed, 400)


def compare(seed: int, steps: int) -> None:
    storm = Storm(seed)
    for _ in storm.run(steps):
        pass
    world = storm.world
    before = digest(world.state)
    proposal = storm.altered() if storm.random.random() < 0.6 else storm.configuration()
    now_ms = world.now_ms + storm.random.choice((0, 1_000, 60_000))
    unchanged = play(copy_of(world.core), PASSES, now_ms)
    said = preview(copy_of(world.core), proposal, unchanged, PASSES, now_ms, EVERY)
    assert digest(world.state) == before, "a preview changes nothing"
    core = world.core
    decided = core.handle(Configure(as_of_rm(world.state, proposal)), now_ms)
    refused = [fact.reason for fact in decided if isinstance(fact, ConfigurationRefused)]
    assert said["refused"] == "".join(refused)
    if refused:
        return
    played = play(core, PASSES, now_ms)
    check(core.state, core.index)
    for name, decided_on in (("allocations", played.placements), ("preemptions", played.victims)):
        rows = [msgspec.json.decode(row) for row in said[name]["rows"]]
        assert said[name]["total"] == len(decided_on)
        assert (
            rows == [{**msgspec.to_builtins(one), "partition": plain(one.partition)} for one in decided_on][: len(rows)]
        )
        assert len(rows) == len(decided_on) or len(rows) > 200, "there is room for that many"
    another = msgspec.structs.replace(proposal, checksum="another")
    again = preview(copy_of(core), another, unchanged, PASSES, now_ms, EVERY)
    assert again["queues"]["total"] == again["partitions"]["total"] == 0, "what was applied is no change any more"
