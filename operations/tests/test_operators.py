"""Names and groups of operators survive a subject, and nothing else passes for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus import subjects
from remuda_operations.operators import (
    OPERATOR_GROUPS_CHARACTERS,
    OPERATOR_NAME_CHARACTERS,
    Operator,
    operator_with,
    request_of,
)
from remuda_proto.names import GROUP, USER

USERS = st.from_regex(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]{0,40}[$]?", fullmatch=True)
GROUPS = st.lists(st.from_regex(r"[_a-zA-Z][a-zA-Z0-9:_.-]{0,20}", fullmatch=True), max_size=20, unique=True)


@given(USERS, GROUPS)
def test_a_subject_holds_the_operator(name: str, groups: list[str]) -> None:
    assert USER.matches(name) and all(GROUP.matches(group) for group in groups)
    operator = Operator(name, tuple(groups))
    subject = subjects.administration(operator.token, operator.groups_token, "rm:1", "kill_application")
    assert len(subject.split(".")) == 6 and not set("*> \t") & set(subject)
    assert request_of(subject) == (operator, "rm:1", "kill_application")


def test_tokens_can_be_read() -> None:
    operator = operator_with("alice@example.com", ["ops", "dev.x", "ops"])
    assert (operator.token, operator.groups_token) == ("alice=40example=2Ecom", "ops+dev=2Ex")
    assert Operator("bob").groups_token == "-"


@pytest.mark.parametrize(
    ("name", "groups", "message"),
    [
        ("", (), "operator '': expected a letter or _"),
        ("a b", (), "operator 'a b': expected a letter"),
        ("a" * 300, (), r"300 characters, expected at most 254"),
        ("bob", ("",), "group '': expected a letter"),
        ("bob", ("-",), "group '-': expected a letter"),
        ("bob", tuple(f"g{n}" for n in range(65)), "groups of bob: 65, expected at most 64"),
        ("bob", tuple(f"{n:.>99}".replace(".", "g") for n in range(30)), "characters in a subject, expected at most"),
    ],
)
def test_names_are_bounded(name: str, groups: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Operator(name, groups)


@pytest.mark.parametrize(
    "subject",
    [
        "remuda.admin.a=40.-.rm 1.kill",
        "remuda.admin.a=41.-.rm-1.kill",  # encodes a character that needs no encoding
        "remuda.admin.a=4.-.rm-1.kill",
        "remuda.admin.a=ff.-.rm-1.kill",
        "remuda.admin.-.-.rm-1.kill",
        "remuda.admin.a.+.rm-1.kill",
        "remuda.admin.a.x+.rm-1.kill",
        "remuda.admin.a.x.rm-1",
    ],
)
def test_other_subjects_are_refused(subject: str) -> None:
    with pytest.raises(ValueError):
        request_of(subject)


def test_the_largest_operator_fits_into_a_subject() -> None:
    longest = Operator("a" + "@" * (OPERATOR_NAME_CHARACTERS - 1))
    size = len(subjects.administration(longest.token, "g" * OPERATOR_GROUPS_CHARACTERS, "r" * 64, "a" * 64))
    assert size < 4_000  # nats-server reads at most 4,096 bytes of a line
