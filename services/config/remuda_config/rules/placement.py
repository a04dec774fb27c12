"""Verifies placement rules: their values, and whether the fixed part of a chain leads to a queue."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from remuda_config import limits
from remuda_config.problems import Finding, Path
from remuda_config.schema import Filter, PlacementRule, Queue
from remuda_proto.bounds import shown
from remuda_proto.names import BY_KIND, QUEUE
from remuda_proto.patterns import BadPattern, compiled

ROOT = "root"
RULES = ("provided", "user", "primarygroup", "secondarygroup", "fixed", "tag", "applicationtype")
_OLD = {"username": "user", "primarygroupname": "primarygroup", "secondarygroupname": "secondarygroup"}

# The characters that make an entry of a filter a regular expression instead of a name.
_SPECIAL = re.compile(r"[\^$*+?()\[{}|]")

Tree = dict[str, bool]  # lower-case full path -> is a parent


def canonical(name: str) -> str | None:
    """Returns the current spelling of a rule's name, in lower case; None for an unknown rule."""
    lower = name.lower()
    lower = _OLD.get(lower, lower)
    return lower if lower in RULES else None


def is_expression(entry: str) -> bool:
    """Returns whether an entry of a filter is a regular expression, not a name."""
    return _SPECIAL.search(entry) is not None


def _refuse_expression(entry: str) -> str | None:
    """Why a filter cannot use this regular expression; None: it can."""
    try:
        compiled(entry)
    except BadPattern as error:
        return str(error)
    return None


def tree_of(root: Queue) -> Tree:
    tree: Tree = {ROOT: True}

    def add(queue: Queue, above: str) -> None:
        name = f"{above}.{queue.name.lower()}"
        tree[name] = queue.is_parent
        for child in queue.queues:
            add(child, name)

    for child in root.queues:
        add(child, ROOT)
    return tree


def check(rules: list[PlacementRule], path: Path, tree: Tree | None) -> Iterator[Finding]:
    """Yields the findings about a chain of placement rules. `tree`: None if the queues are invalid; then the targets
    of rules are not verified.
    """
    if len(rules) > limits.MAX_RULES:
        yield (*path, "placementrules"), f"{len(rules)} rules, expected at most {limits.MAX_RULES}"
        return
    for place, rule in enumerate(rules):
        here = (*path, "placementrules", place)
        problems = list(_check_chain(rule, here, 1))
        yield from problems
        if tree is not None and not problems:
            yield from _check_target(rule, here, tree)


def _check_chain(rule: PlacementRule, path: Path, depth: int) -> Iterator[Finding]:
    yield from _check_rule(rule, path)
    yield from _check_filter(rule.filter, (*path, "filter"))
    if rule.parent is None:
        return
    if depth == limits.MAX_RULE_CHAIN:
        yield (*path, "parent"), f"more than {limits.MAX_RULE_CHAIN} rules hang from one another"
    else:
        yield from _check_chain(rule.parent, (*path, "parent"), depth + 1)


def _check_rule(rule: PlacementRule, path: Path) -> Iterator[Finding]:
    name = canonical(rule.name)
    if name is None:
        yield (*path, "name"), f"unknown rule {shown(rule.name)}: expected one of {', '.join(RULES)}"
    elif name == "tag" and not rule.value:
        yield (*path, "value"), "the tag rule needs the name of a tag as its value"
    elif name == "fixed":
        yield from _check_fixed(rule, path)


def _check_fixed(rule: PlacementRule, path: Path) -> Iterator[Finding]:
    if not rule.value:
        yield (*path, "value"), "the fixed rule needs a queue as its value"
        return
    for part in rule.value.split("."):
        if not QUEUE.matches(part):
            yield (
                (*path, "value"),
                f"bad queue name {shown(part)} in {shown(rule.value)}: expected {QUEUE.expected}",
            )
    if _is_qualified(rule.value) and rule.parent is not None:
        yield (*path, "parent"), f"a fixed rule with a full path ({rule.value}) cannot have a parent rule"


def _check_filter(filter_: Filter, path: Path) -> Iterator[Finding]:
    if filter_.type.lower() not in ("", "allow", "deny"):
        yield (*path, "type"), f"unknown type {shown(filter_.type)}: expected allow or deny"
    for kind, entries in (("user", filter_.users), ("group", filter_.groups)):
        for place, entry in enumerate(entries):
            if problem := _check_entry(kind, entry, alone=len(entries) == 1):
                yield (*path, f"{kind}s", place), problem


def _check_entry(kind: str, entry: str, alone: bool) -> str | None:
    if alone and is_expression(entry):
        reason = _refuse_expression(entry)
        return f"{shown(entry)} is not a usable regular expression: {reason}" if reason else None
    if BY_KIND[kind].matches(entry):
        return None
    hint = "; a regular expression has to be the only entry" if is_expression(entry) else ""
    return f"bad {kind} name {shown(entry)}: expected {BY_KIND[kind].expected}{hint}"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a chain of rules. `exact` False: a queue below `queue`, which depends on the application."""

    queue: str
    exact: bool


def _check_target(rule: PlacementRule, path: Path, tree: Tree) -> Iterator[Finding]:
    target = yield from _follow(rule, path, tree)
    if target is not None and target.exact and tree.get(target.queue):
        yield path, f"the rule leads to {target.queue}, which is not a leaf"


def _follow(rule: PlacementRule, path: Path, tree: Tree) -> Generator[Finding, None, Target | None]:
    """Yields findings and returns the target of the rule, None after a finding."""
    base = Target(ROOT, True)
    if rule.parent is not None:
        above = yield from _follow(rule.parent, (*path, "parent"), tree)
        if above is None:
            return None
        base = above
    if canonical(rule.name) != "fixed":
        reason = _cannot_hold(base.queue, tree) if base.exact else None
        if reason:
            yield path, f"the rule makes queues below {base.queue}, but {reason}"
            return None
        return Target(base.queue, False)
    if not base.exact:
        return base
    value = rule.value.lower()
    target = Target(value if _is_qualified(value) else f"{base.queue}.{value}", True)
    reason = None if target.queue in tree else _cannot_be_made(target.queue, rule.create, tree)
    if reason:
        yield (*path, "value"), f"the rule leads to {target.queue}, but {reason}"
        return None
    return target


def _is_qualified(value: str) -> bool:
    return value.lower() == ROOT or value.lower().startswith(ROOT + ".")


def _cannot_be_made(queue: str, create: bool, tree: Tree) -> str | None:
    if not create:
        return "there is no such queue, and the rule does not create one"
    return _cannot_hold(queue.rpartition(".")[0], tree)


def _cannot_hold(queue: str, tree: Tree) -> str | None:
    """Why no queue can be created below this one, which may not exist yet; None: one can."""
    while queue not in tree:
        queue = queue.rpartition(".")[0]
    return None if tree[queue] else f"{queue} is a leaf"
