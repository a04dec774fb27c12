"""One syntax of access lists for queues, the scheduler's administrators and the core."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_proto.access_list import AccessList, canonical, problems

ALICE = ("alice", ("ops", "dev"))
BOB = ("bob", ())
TEXTS = st.text("ab,* ", max_size=12)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("*", {"alice", "bob"}), (" *", {"alice", "bob"}), ("eve *", {"alice", "bob"}), ("* qa", {"alice", "bob"}),
        ("", set()), (" ", set()), ("bob", {"bob"}), ("bob,alice", {"alice", "bob"}), (" ops", {"alice"}),
        ("bob ops,qa", {"alice", "bob"}), ("ops", set()), (" bob", set()),
    ],
)  # fmt: skip
def test_users_and_groups_of_a_list_have_access(text: str, allowed: set[str]) -> None:
    acl = AccessList.parse(text)
    assert {user for user, groups in (ALICE, BOB) if acl.allows(user, groups)} == allowed


@pytest.mark.parametrize("text", ["a b c", "a  b", " * ", "a,,b", "a,*", "a b,*", "a!b", " a@b"])
def test_a_wrong_list_names_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|has to"):
        AccessList.parse(text)


def test_all_problems_of_a_list_are_named() -> None:
    assert len(list(problems("a!b,,c d@e"))) == 3


@given(TEXTS)
def test_the_canonical_list_allows_the_same(text: str) -> None:
    if not any(problems(text)):
        assert AccessList.parse(canonical(text)) == AccessList.read(text)
        assert canonical(canonical(text)) == canonical(text)
