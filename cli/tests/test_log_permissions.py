"""Who may change log levels: administrators, and operators who are named. Each service hears of changes of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remuda.access.accounts import operator_account
from remuda.access.keys import ACCOUNTS, Keys
from remuda.access.permissions import SERVICES, of_role
from remuda.errors import UserError
from remuda_bus import subjects
from remuda_operations.operators import Operator


def test_services_hear_and_do_not_say() -> None:
    for service in SERVICES:
        found = of_role(service)
        assert subjects.log_level(service) in found.subscribe
        assert not any(subject.startswith("remuda.process.") for subject in found.publish)
    assert not any(subject.startswith("remuda.process.") for subject in of_role("operator").publish)


def test_operators_are_named_and_forgotten(tmp_path: Path) -> None:
    keys, alice, bob = Keys(tmp_path), Operator("alice"), Operator("bob")
    keys.ensure_roles()
    for one in (alice, bob):
        keys.add_operator(one)
    keys.set_log_levels([alice, bob])
    assert [may_log(keys, one) for one in (alice, bob)] == [True, True]
    keys.set_log_levels([bob])
    assert [may_log(keys, one) for one in (alice, bob)] == [False, True]
    keys.remove_operator(bob)
    keys.add_operator(bob)
    assert not may_log(keys, bob), "another one of that name"
    with pytest.raises(UserError, match="eve has no key"):
        keys.set_log_levels([Operator("eve")])


def may_log(keys: Keys, operator: Operator) -> bool:
    """Whether the operator's account imports the subject, may publish to it, and is one that it is exported to."""
    accounts = json.loads("{" + (keys.directory / ACCOUNTS).read_text() + "}")["accounts"]
    subject, own = subjects.log_level("*"), accounts[operator_account(operator)]
    imports = any(one.get("to") == subject for one in own["imports"])
    publishes = subject in own["users"][0]["permissions"]["publish"]["allow"]
    exported = any(
        one["service"] == subject and operator_account(operator) in one["accounts"]
        for one in accounts["REMUDA"]["exports"]
    )
    assert imports == publishes == exported
    return imports
