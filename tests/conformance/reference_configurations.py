"""The reference's rules of configurations and limits in the place of ours, as those in `reference_rules`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

import remuda_config
from remuda_config import schema
from remuda_config.problems import Problem
from remuda_config.rules.placement import canonical
from remuda_core.evolve import tracking
from remuda_core.rules.limits import ANYONE, USER, Applying
from remuda_core.settings import Limit

from .configurations import paths_with_upper_case


def fixed_by_rules(text: str) -> Iterator[str]:
    """The paths, in lower case, to which rules without `create` lead whatever the application: those of fixed rules, or
    of the fixed rules from which others hang."""
    for partition in schema.validate(schema.read_yaml(text))[0].partitions:
        for rule in partition.placementrules:
            chain = [rule]
            while chain[-1].parent is not None:
                chain.append(chain[-1].parent)
            path = "root"
            for each in reversed(chain):
                if canonical(each.name) != "fixed":
                    break
                value = each.value.lower()
                path = value if value.startswith("root.") else f"{path}.{value}"
            if path != "root" and not rule.create:
                yield path


def leads_to_upper_case(text: str) -> bool:
    """Whether a rule without `create` leads to a queue that is written with an upper-case letter."""
    try:
        return any(path in paths_with_upper_case(text) for path in fixed_by_rules(text))
    except schema.NotYaml:
        return False


def refuse_rules_that_lead_to_upper_case() -> AbstractContextManager[object]:
    """The queue of a fixed rule, in lower case, is looked for among names as they are written."""
    load = remuda_config.load

    def loaded(text: str, *arguments: Any) -> Any:
        if leads_to_upper_case(text):
            raise remuda_config.Invalid([Problem("", 0, "there is no such queue")])
        return load(text, *arguments)

    return patch.object(remuda_config, "load", loaded)


def limit_who_is_named_without_amounts_like_anyone() -> AbstractContextManager[object]:
    """A user whose limit has a number of applications alone has the amounts of `*` in the same queue."""
    applying = tracking.applying

    def with_amounts(levels: Sequence[Sequence[Limit]], user: str, groups: Sequence[str]) -> Iterator[Applying]:
        for found in applying(levels, user, groups):
            anyone = next((limit for limit in levels[found.level] if ANYONE in limit.users), None)
            if found.kind == USER and anyone is not None and not found.limit.max_resources:
                found = found._replace(limit=replace(found.limit, max_resources=anyone.max_resources))
            yield found

    return patch.object(tracking, "applying", with_amounts)
