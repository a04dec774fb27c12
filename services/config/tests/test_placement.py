from __future__ import annotations

import pytest

from services.config.tests.texts import problems, rules

ACCEPTED = [
    "- name: PROVIDED",
    "- {name: UserName, create: true}",
    "- {name: tag, value: namespace}",
    "- {name: fixed, value: root.a}",
    "- {name: Fixed, value: ROOT.A}",
    "- {name: fixed, value: n.big}",
    "- {name: fixed, value: x, parent: {name: fixed, value: n}}",
    "- {name: fixed, value: new, create: true}",
    "- {name: fixed, value: p.q.r, create: true}",
    "- {name: user, parent: {name: fixed, value: root.p}}",
    "- {name: user, parent: {name: fixed, value: n}}",
    "- {name: user, parent: {name: fixed, value: new, create: true}}",
    "- {name: fixed, value: whatever, parent: {name: user}}",
    "- {name: user, parent: {name: tag, value: t, parent: {name: fixed, value: p}}}",
    "- {name: user, filter: {type: DENY, users: ['^a.*|b$']}}",
    "- {name: user, filter: {users: [svc$], groups: [a, b, a]}}",
    "- {name: user, filter: {users: ['^[[:alpha:]]+$']}}",
    "- {name: user, filter: {users: ['(a|a)+b']}}",
    "-",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text):
    assert problems(rules(text)) == []


REFUSED = [
    ("- name: nosuch", "name", "unknown rule 'nosuch': expected one of provided"),
    ("- {}", "name", "unknown rule ''"),
    ("- name: tag", "value", "needs the name of a tag"),
    ("- name: fixed", "value", "needs a queue"),
    ("- {name: fixed, value: root..a}", "value", "bad queue name ''"),
    ("- {name: fixed, value: a!b, create: true}", "value", "bad queue name 'a!b'"),
    ("- {name: fixed, value: root.a, parent: {name: user}}", "parent", "cannot have a parent rule"),
    ("- {name: fixed, value: nosuch}", "value", "there is no such queue"),
    ("- {name: fixed, value: rooted}", "value", "leads to root.rooted, but there is no such queue"),
    ("- {name: fixed, value: a.b, create: true}", "value", "root.a is a leaf"),
    ("- {name: fixed, value: root}", "", "which is not a leaf"),
    ("- {name: fixed, value: p, create: true}", "", "root.p, which is not a leaf"),
    ("- {name: fixed, value: n}", "", "root.n, which is not a leaf"),
    ("- {name: user, parent: {name: fixed, value: a}}", "", "below root.a, but root.a is a leaf"),
    ("- {name: user, parent: {name: fixed, value: zz}}", "parent.value", "no such queue"),
    ("- {name: fixed, value: zz, parent: {name: fixed, value: n}}", "value", "root.n.zz, but there is no such queue"),
    ("- {name: user, parent: {name: 'a b'}}", "parent.name", "unknown rule 'a b'"),
    ("- {name: user, filter: {type: block}}", "filter.type", "expected allow or deny"),
    ("- {name: user, filter: {users: ['']}}", "filter.users[0]", "bad user name ''"),
    ("- {name: user, filter: {users: ['a,b']}}", "filter.users[0]", "bad user name 'a,b'"),
    ("- {name: user, filter: {users: [a, 'b.*']}}", "filter.users[1]", "has to be the only entry"),
    (f"- {{name: user, filter: {{users: ['{'a|' * 2_100}b']}}}}", "filter.users[0]", "at most 4096"),
    ("- {name: user, filter: {groups: ['a[(']}}", "filter.groups[0]", "not a usable regular expression"),
    *[
        (f"- {{name: user, filter: {{users: ['{expression}']}}}}", "filter.users[0]", "expected the syntax of RE2")
        for expression in ["(?=a)", "(?<!a)b", r"(a)\1", "a++", r"a*\Z", "(?P=x)", "a{1,2000}", "a|b\\"]
    ],
]


@pytest.mark.parametrize(("text", "path", "message"), REFUSED)
def test_refused(text, path, message):
    found = problems(rules(text))
    place = f"partitions[0].placementrules[0]{'.' if path else ''}{path}"
    assert [(where, message in what) for where, _, what in found] == [(place, True)], found


def test_a_chain_has_an_end():
    chain = "{name: user}"
    for _ in range(16):
        chain = f"{{name: user, parent: {chain}}}"
    assert "more than 16 rules" in problems(rules(f"- {chain}"))[0][2]
