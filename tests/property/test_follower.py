"""A follower that explains has an index, which facts alone keep: nothing is decided by it."""

from __future__ import annotations

from random import Random

import pytest

from remuda_core.check import check, digest
from remuda_core.core import Core
from remuda_core.shell.queries import Queries

from .storm import storm

WANTED = {"guests": {"partition": "default", "queue": "root", "prefix": "app"}}  # without which the core refuses


@pytest.mark.parametrize("seed", range(4))
def test_answers_do_not_change_what_a_follower_knows(seed: int) -> None:
    world, chance = storm(seed, 150), Random(seed)
    core = Core(world.state.rm_id)
    queries = Queries(core)
    for now_ms, facts in world.log:
        core.replay(facts, now_ms)
        if chance.random() < 0.1:
            for kind, question in queries.kinds.items():
                question({**WANTED.get(kind, {}), "limit": chance.choice((1, 5, 100))})
        elif chance.random() < 0.02:
            core.index.forget()
    check(core.state, core.index)
    assert digest(core.state) == digest(world.state)
