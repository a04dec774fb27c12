"""Each kind of configuration difference that looks at error and text, from both sides: what it explains, what not."""

from __future__ import annotations

import re

import pytest

from .configurations import LAXER, MEANS_ANOTHER, STRICTER, Setting, World

CASE = "queue names are case-insensitive, also in placement rules"
CREATED = "a rule without create finds a queue that its parent rule creates"
BIG = "partitions: [{name: default, placementrules: [{name: fixed, value: %s}], queues: [{name: root, queues: [%s]}]}]"
BELOW = """
partitions:
- name: default
  placementrules:
  - name: user
    create: %s
    parent: {name: fixed, value: made, create: %s}
  queues: [{name: root}]
"""


def missing(queue: str, rule: str = "fixed") -> str:
    return f"placement rule no. #0 ({rule}) references non-existing queues ({queue}) and create is 'false'"


def explains(kind: str, error: str, text: str) -> bool:
    return bool(LAXER[kind](error, text))


def test_a_queue_written_in_upper_case():
    assert explains(CASE, missing("root.big"), BIG % ("big", "{name: Big}"))
    assert explains(CASE, missing("root.Big"), BIG % ("Big", "{name: 'B1g'}, {name: bIg}"))
    assert not explains(CASE, missing("root.zz"), BIG % ("zz", "{name: Big}"))
    assert not explains(CASE, missing("root.big"), BIG % ("big", "{name: other}"))
    assert not explains(CASE, "duplicate partition name found with name Big", BIG % ("big", "{name: Big}"))


def test_a_create_that_only_the_parent_rule_has():
    assert explains(CREATED, missing("root.made", "fixed->user"), BELOW % ("false", "true"))
    assert not explains(CREATED, missing("root.made", "fixed->user"), BELOW % ("true", "true"))
    assert not explains(CREATED, missing("root.made", "fixed->user"), BELOW % ("false", "false"))
    assert not explains(CREATED, "references a queue (root.made) which is not a leaf", BELOW % ("false", "true"))


def test_names_of_later_versions():
    queues, users = "names of queues may have `: # / @`", "names of users may have `# /`"
    child = "invalid child name %s, a name must only have alphanumeric characters, - or _, and be no longer than 64"
    limit = "invalid limit user name '%s' in limit definition"
    assert explains(queues, child % "a@b", "") and explains(users, limit % "ldap/carol", "")
    assert not any(explains(queues, child % name, "") for name in ("a b", "a", "@recovery@", "a" * 65))
    assert not any(explains(users, limit % name, "") for name in ("a b", "alice", "1/a"))
    assert not explains(queues, "duplicate child name found with name a@b, level 1", "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "a weight that is negative, infinite or no number",
            "nodesortpolicy: {resourceweights: {vcore: .inf}}, queues: []",
        ),
        (
            "a weight that is negative, infinite or no number",
            "nodesortpolicy: {resourceweights: {vcore: -.INF}}, queues: []",
        ),
        (
            "a weight that is negative, infinite or no number",
            "nodesortpolicy: {resourceweights: {vcore: .nan}}, queues: []",
        ),
        (
            "a rule that creates queues below a leaf",
            "placementrules: [{name: user, create: true, parent: {name: fixed, value: a}}], "
            "queues: [{name: root, queues: [{name: a}]}]",
        ),
    ],
)
def test_stricter(kind, text):
    refused = World(f"partitions: [{{name: default, {text}}}]").refused
    assert {name for name, pattern in STRICTER.items() if re.search(pattern, refused)} == {kind}


def test_a_weight_below_zero_is_of_no_kind():
    refused = World("partitions: [{nodesortpolicy: {resourceweights: {vcore: -1}}, queues: []}]").refused
    assert refused
    assert not any(re.search(pattern, refused) for pattern in STRICTER.values())


def test_maxapplications_alone_makes_a_template():
    fits = MEANS_ANOTHER["a child template may hold maxapplications alone"]
    nothing: dict[str, dict[str, int]] = {"properties": {}, "max": {}, "guaranteed": {}}
    assert fits(Setting("root.a", "hasTemplate", True, None))
    assert fits(Setting("root.a", "template", nothing, None))
    assert not fits(Setting("root.a", "hasTemplate", None, True))
    assert not fits(Setting("root.a", "template", {**nothing, "max": {"vcore": 1}}, None))
