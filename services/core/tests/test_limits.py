"""Which limits hold for whom."""

from __future__ import annotations

from remuda_core.rules.limits import ANYONE, GROUP, USER, applying, group_of
from remuda_core.settings import Limit

ALICE, DEV, OPS = Limit(("alice",)), Limit((), ("dev",)), Limit((), ("ops",))
EVERY_USER, EVERY_GROUP = Limit((ANYONE,)), Limit((), (ANYONE,))


def who(levels: list[list[Limit]], user: str, *groups: str) -> list[tuple[int, str, str]]:
    return [(found.level, found.kind, found.name) for found in applying(levels, user, groups)]


def test_a_named_user_is_not_under_the_limit_for_everyone_else() -> None:
    assert list(applying([[ALICE, EVERY_USER]], "alice", ())) == [(0, USER, "alice", ALICE)]
    assert list(applying([[ALICE, EVERY_USER]], "bob", ())) == [(0, USER, "bob", EVERY_USER)]


def test_each_level_is_looked_at_by_itself() -> None:
    assert who([[EVERY_USER], [], [ALICE]], "alice") == [(0, USER, "alice"), (2, USER, "alice")]
    assert who([[EVERY_USER], [], [ALICE]], "bob") == [(0, USER, "bob")]


def test_one_group_counts_the_first_that_is_named_from_the_leaf_upwards() -> None:
    assert group_of([[DEV], [OPS]], ["ops", "dev"]) == "dev"
    assert group_of([[], [OPS, DEV]], ["dev", "ops"]) == "ops"
    assert who([[DEV], [OPS, DEV]], "alice", "ops", "dev") == [(0, GROUP, "dev"), (1, GROUP, "dev")]
    assert who([[DEV], [OPS]], "alice", "ops", "dev") == [(0, GROUP, "dev")]


def test_a_wildcard_is_for_groups_that_are_not_named_there() -> None:
    assert who([[DEV, EVERY_GROUP]], "alice", "dev") == [(0, GROUP, "dev")]
    assert who([[DEV, EVERY_GROUP]], "alice", "qa") == [(0, GROUP, ANYONE)]
    assert who([[EVERY_GROUP], [DEV]], "alice", "dev") == [(0, GROUP, ANYONE), (1, GROUP, "dev")]


def test_who_is_in_no_group_is_under_no_limit_for_groups() -> None:
    assert who([[DEV, EVERY_GROUP]], "alice") == []
