"""The reference's rules of configurations and limits in the place of ours, as those in `reference_rules`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

import remuda_config
from remuda_config import schema
from remuda_config.problems import Finding, Path, Problem, spell
from remuda_config.rules.placement import canonical
from remuda_config.schema import PlacementRule, Queue, Queues
from remuda_core.evolve import booking
from remuda_core.rules import limits
from remuda_core.rules.limits import ANYONE, USER, Applying
from remuda_core.settings import Limit

from .configurations import creates_in_parent_only, paths_with_upper_case

# Of a rule of ours: it leads to a queue with children, or to none.
NO_LEAF: Final = re.compile(r"placementrules\[\d+\].*: .*(which is not a leaf|there is no such queue)")


def fixed_by(rule: PlacementRule) -> str:
    """The path, in lower case, to which the rule leads whatever the application: that of fixed rules, or of the fixed
    ones from which others hang; `root`: none."""
    chain = [rule]
    while chain[-1].parent is not None:
        chain.append(chain[-1].parent)
    path = "root"
    for each in reversed(chain):
        if canonical(each.name) != "fixed":
            break
        value = each.value.lower()
        path = value if value.startswith("root.") else f"{path}.{value}"
    return path


def parents_by_children(root: Queue) -> Iterator[str]:
    """Queues that have queues below them and not `parent: true`."""
    waiting = [("root", child) for child in root.queues]
    while waiting:
        above, queue = waiting.pop()
        path = f"{above}.{queue.name.lower()}"
        if queue.queues and not queue.parent:
            yield path
        waiting += [(path, child) for child in queue.queues]


def misses_a_queue(text: str) -> bool:
    """Whether the reference misses the queue of a rule that is there: it is written with an upper-case letter, a parent
    by its children alone, or made by the rule from which another hangs."""
    try:
        partitions = schema.validate(schema.read_yaml(text))[0].partitions
    except schema.NotYaml:
        return False
    for partition in partitions:
        parents = set(parents_by_children(partition.root(())[0]))
        for number, rule in enumerate(partition.placementrules):
            path = fixed_by(rule)
            hangs = path in parents and canonical(rule.name) != "fixed"
            unwritten = not rule.create and path in paths_with_upper_case(text)
            if path != "root" and (hangs or unwritten or creates_in_parent_only(text, number)):
                return True
    return False


def refuse_rules_whose_queue_is_missed() -> AbstractContextManager[object]:
    load = remuda_config.load

    def loaded(text: str, *arguments: Any) -> Any:
        if misses_a_queue(text):
            raise remuda_config.Invalid([Problem("", 0, "there is no such queue")])
        return load(text, *arguments)

    return patch.object(remuda_config, "load", loaded)


def accept_rules_that_lead_to_no_leaf() -> AbstractContextManager[object]:
    """The rule never matches."""
    module = import_module("remuda_config.load")  # the package has a function of this name
    verify = module.verify

    def others(queues: Queues, left_out: list[Path], compatibility: str) -> list[Finding]:
        found = verify(queues, left_out, compatibility)
        return [(path, said) for path, said in found if not NO_LEAF.search(f"{spell(path)}: {said}")]

    return patch.object(module, "verify", others)


def limit_who_is_named_without_amounts_like_anyone() -> AbstractContextManager[object]:
    """A user whose limit has a number of applications alone has the amounts of `*` in the same queue."""
    applying = limits.applying

    def with_amounts(levels: Sequence[Sequence[Limit]], user: str, groups: Sequence[str]) -> Iterator[Applying]:
        for found in applying(levels, user, groups):
            anyone = next((limit for limit in levels[found.level] if ANYONE in limit.users), None)
            if found.kind == USER and anyone is not None and not found.limit.max_resources:
                found = found._replace(limit=replace(found.limit, max_resources=anyone.max_resources))
            yield found

    return patch.object(booking, "applying", with_amounts)
