from __future__ import annotations

import pytest

from services.config.tests.texts import problems, queues

REFUSED = {
    "nobody": ("- {maxapplications: 1}", "[0].limits[0]", "at least one user or group"),
    "nothing limited": ("- {users: [a]}", "[0].limits[0]", "needs maxresources or maxapplications"),
    "all zero": ("- {users: [a], maxresources: {m: 0}, maxapplications: 1}", "[0].limits[0].maxresources", "above 0"),
    "bad user": ("- {users: ['1a'], maxapplications: 1}", "[0].limits[0].users[0]", "bad user name '1a'"),
    "empty user": ("- {users: [''], maxapplications: 1}", "[0].limits[0].users[0]", "bad user name ''"),
    "bad group": ("- {groups: [a$], maxapplications: 1}", "[0].limits[0].groups[0]", "bad group name 'a$'"),
    "user twice": (
        "- {users: [a], maxapplications: 1}\n- {users: [a], maxapplications: 2}",
        "[0].limits[1].users[0]",
        "already has a limit",
    ),
    "star not last": ("- {users: ['*', a], maxapplications: 1}", "[0].limits[0].users[1]", "has to be last"),
    "two stars": ("- {users: ['*', '*'], maxapplications: 1}", "[0].limits[0].users[1]", "already has a limit"),
    "group star alone": ("- {groups: ['*'], maxapplications: 1}", "[0].limits[0].groups[0]", "named group before it"),
    "above the queue's max": (
        "- {users: [a], maxresources: {m: 11}}",
        "[0].limits[0].maxresources.m",
        "11 is above the queue's own max, 10",
    ),
    "above the queue's applications": (
        "- {users: [a], maxapplications: 6}",
        "[0].limits[0].maxapplications",
        "6 is above the queue's own 5",
    ),
}


@pytest.mark.parametrize(("text", "path", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(text, path, message):
    limits = "\n".join(f"    {line}" for line in text.splitlines())
    found = problems(queues(f"- name: a\n  resources: {{max: {{m: 10}}}}\n  maxapplications: 5\n  limits:\n{limits}"))
    assert [(where, message in what) for where, _, what in found] == [(path, True)], found


def tree(top: str, middle: str, bottom: str) -> str:
    return queues(
        f"- name: p\n  limits: [{top}]\n  queues:\n    - name: m\n      limits: [{middle}]\n"
        f"      queues:\n        - name: c\n          limits: [{bottom}]"
    )


DOWN_THE_TREE = {
    "equal": ("{users: [a], maxresources: {m: 1}}", "", "{users: [a], maxresources: {m: 1}}", None),
    "above": (
        "{users: [a], maxresources: {m: 1}}",
        "",
        "{users: [a], maxresources: {m: 2}}",
        "the limit of user 'a' in root.p",
    ),
    "another user between": (
        "{users: [a], maxresources: {m: 1}}",
        "{users: [b], maxresources: {m: 1}}",
        "{users: [a], maxresources: {m: 2}}",
        "root.p",
    ),
    "another resource between": (
        "{users: [a], maxresources: {m: 1}}",
        "{users: [a], maxresources: {v: 1}}",
        "{users: [a], maxresources: {m: 2}}",
        "root.p",
    ),
    "the nearer is tighter": (
        "{users: [a], maxresources: {m: 3}}",
        "{users: [a], maxresources: {m: 1}}",
        "{users: [a], maxresources: {m: 2}}",
        "root.p.m",
    ),
    "another resource": ("{users: [a], maxresources: {m: 1}}", "", "{users: [a], maxresources: {v: 2}}", None),
    "another user": ("{users: ['*'], maxresources: {m: 1}}", "", "{users: [a], maxresources: {m: 2}}", None),
    "the star itself": ("{users: ['*'], maxresources: {m: 1}}", "", "{users: ['*'], maxresources: {m: 2}}", "user '*'"),
    "a group is no user": ("{groups: [a], maxresources: {m: 1}}", "", "{users: [a], maxresources: {m: 2}}", None),
    "group": (
        "{groups: [g], maxapplications: 1}",
        "",
        "{groups: [g], maxapplications: 2}",
        "2 for group 'g' is above the 1",
    ),
    "applications unset": (
        "{users: [a], maxapplications: 1}",
        "",
        "{users: [a], maxresources: {m: 1}}",
        "has to be set",
    ),
}


@pytest.mark.parametrize(("top", "middle", "bottom", "message"), DOWN_THE_TREE.values(), ids=DOWN_THE_TREE)
def test_down_the_tree(top, middle, bottom, message):
    found = problems(tree(top, middle, bottom))
    if message is None:
        assert found == []
    else:
        assert [message in what for _, _, what in found] == [True], found


def test_roots_limits_bind_too():
    text = queues("- {name: a, limits: [{users: [u], maxapplications: 2}]}")
    above = text.replace("- name: root", "- name: root\n        limits: [{users: [u], maxapplications: 1}]")
    assert [what for _, _, what in problems(above)] == ["2 for user 'u' is above the 1 of root"]
