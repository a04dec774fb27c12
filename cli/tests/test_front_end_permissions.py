"""In whose names front ends may act: nobody's, until the owner of the key directory says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remuda.access.command import set_acts_as
from remuda.access.keys import ACCOUNTS, Keys
from remuda.access.permissions import FRONT_ENDS, of_role
from remuda.errors import UserError
from remuda_operations.operators import Operator

ACTING = ("remuda.admin.", "remuda.configuration.")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    made = Keys(tmp_path)
    made.ensure_roles()
    return made


def acting(keys: Keys) -> dict[str, set[str]]:
    """For each front end the names and groups on whose subjects it may publish."""
    text = (keys.directory / ACCOUNTS).read_text()
    found: dict[str, set[str]] = {role: set() for role in FRONT_ENDS}
    users = json.loads("{" + text + "}")["accounts"]["REMUDA"]["users"]
    by_key = {user["nkey"]: user["permissions"]["publish"]["allow"] for user in users}
    for role in FRONT_ENDS:
        allowed = by_key[(keys.directory / f"{role}.pub").read_text().strip()]
        acts = [subject.split(".") for subject in allowed if subject.startswith(ACTING)]
        found[role] = {f"{name} {groups}" for _, _, name, groups, *_ in acts}
    return found


@pytest.mark.parametrize("role", FRONT_ENDS)
def test_nobody_by_default(role: str, keys: Keys) -> None:
    assert not [subject for subject in of_role(role).publish if subject.startswith(ACTING)]
    assert acting(keys)[role] == set()


def test_those_that_are_named_and_nobody_again(keys: Keys) -> None:
    set_acts_as(keys.directory, "grpc", "alice@example.com+ops+dev, bob")
    assert acting(keys) == {"grpc": {"alice=40example=2Ecom ops+dev", "bob -"}, "web": set()}
    set_acts_as(keys.directory, "web", "*")
    assert acting(keys)["web"] == {"* *"}
    assert Keys(keys.directory).acts_as("grpc") == [Operator("alice@example.com", ("ops", "dev")), Operator("bob")]
    set_acts_as(keys.directory, "grpc", "")
    assert acting(keys) == {"grpc": set(), "web": {"* *"}}


@pytest.mark.parametrize(("front_end", "operators"), [("core", "*"), ("grpc", "a\x07"), ("grpc", "a+"), ("web", "**")])
def test_what_is_no_front_end_or_operator_is_refused(front_end: str, operators: str, keys: Keys) -> None:
    with pytest.raises(UserError):
        set_acts_as(keys.directory, front_end, operators)
    assert acting(keys) == {"grpc": set(), "web": set()}


def test_a_file_that_is_damaged_is_named(keys: Keys) -> None:
    (keys.directory / "web.acts_as").write_text("a > b\n")
    with pytest.raises(UserError, match="web.acts_as.*remuda operator front-end"):
        keys.render()
