"""The placement rules by name: which queue each rule names for an application (001, Placement Rules; semantics section
5).

To add a rule, add its function, its line in RULES, and its name to the verifier (`remuda_config.rules.placement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from remuda_proto import patterns

from ..settings import PlacementFilter, PlacementRule


@dataclass(frozen=True, slots=True)
class Applicant:
    """The part of an application that placement looks at."""

    queue: str
    user: str
    groups: tuple[str, ...]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NamingRule:
    """`name_of`: the name that the rule gives the queue of an application; None or empty: the rule does not match,
    because of what is `lacking` (`{value}` stands for the rule's). `may_be_a_path`: a name that begins with root is the
    full path of the queue. `has_levels`: dots in the name separate queues; otherwise they are replaced."""

    name_of: Callable[[PlacementRule, Applicant], str | None]
    lacking: str
    may_be_a_path: bool = False
    has_levels: bool = False


def provided(rule: PlacementRule, who: Applicant) -> str | None:
    return who.queue


def user(rule: PlacementRule, who: Applicant) -> str | None:
    return who.user


def primary_group(rule: PlacementRule, who: Applicant) -> str | None:
    return who.groups[0] if who.groups else None


def secondary_group(rule: PlacementRule, who: Applicant) -> str | None:
    """The first group after the primary one that passes the filter."""
    return next((g for g in who.groups[1:] if group_passes(rule.filter, g)), None)


def fixed(rule: PlacementRule, who: Applicant) -> str | None:
    return rule.value


def tag(rule: PlacementRule, who: Applicant) -> str | None:
    """The value of the application's tag that the rule names."""
    return who.tags.get(rule.value)


def application_type(rule: PlacementRule, who: Applicant) -> str | None:
    return who.tags.get("application.type")


RULES: Final[Mapping[str, NamingRule]] = {
    "provided": NamingRule(provided, "the application names no queue", may_be_a_path=True),
    "user": NamingRule(user, "the application names no user"),
    "primarygroup": NamingRule(primary_group, "the user has no group"),
    "secondarygroup": NamingRule(secondary_group, "the user has no second group that the filter lets pass"),
    "fixed": NamingRule(fixed, "the rule has no value", may_be_a_path=True, has_levels=True),
    "tag": NamingRule(tag, "the application has no tag {value}"),
    "applicationtype": NamingRule(application_type, "the application has no tag 'application.type'"),
}


def filter_passes(rule_filter: PlacementFilter | None, rule: str, who: Applicant) -> bool:
    """Whether the rule is for this application. The filter of `secondarygroup` chooses the group instead."""
    if rule_filter is None or not (rule_filter.users or rule_filter.groups) or rule == "secondarygroup":
        return True
    named = _matches(rule_filter.users, who.user) or any(_matches(rule_filter.groups, group) for group in who.groups)
    return named == (rule_filter.type != "deny")


def group_passes(rule_filter: PlacementFilter | None, group: str) -> bool:
    if rule_filter is None or not rule_filter.groups:
        return True
    return _matches(rule_filter.groups, group) == (rule_filter.type != "deny")


def _matches(names: tuple[str, ...], name: str) -> bool:
    """One entry is a regular expression, several are a list."""
    if len(names) == 1:
        return patterns.found(names[0], name)
    return name in names
