"""The table in the README of the suite: it accounts for each case, and names tests that say they show it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SUITE = Path(__file__).parent / "suite"
ROWS = re.compile(r"^\| (?P<suite>[a-z_-]+) \| (?P<cases>[0-9, to]+) \| (?P<rest>.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(?P<test>test_\w+)` in (?P<file>test_\w+\.py) \| (?P<modes>both|one)")
NAMED = re.compile(r"([a-z_-]+) (\d+(?:(?:, | to )\d+)*)")
# The number of cases of each suite.
COUNTS = {
    "admission_controller": 19, "basic_scheduling": 5, "bin_packing": 1, "configmap": 8, "foreign_pod": 1,
    "gang_scheduling": 12, "node_resources": 1, "persistent_volume": 2, "pod_resource_scaling": 3, "predicates": 18,
    "preemption": 5, "priority_scheduling": 4, "queue_quota_mgmt": 6, "quota-preemption": 9, "recovery_and_restart": 4,
    "resource_fairness": 1, "restart_changed_config": 1, "simple_preemptor": 2, "spark_jobs_scheduling": 1,
    "user_group_limit": 17,
}  # fmt: skip


def numbers(text: str) -> Iterator[int]:
    """Of `1, 3 to 5`."""
    for part in text.split(", "):
        first, _, last = part.partition(" to ")
        yield from range(int(first), int(last or first) + 1)


def rows() -> list[tuple[str, list[int], str]]:
    found = ROWS.finditer((SUITE / "README.md").read_text())
    return [(row["suite"], list(numbers(row["cases"])), row["rest"]) for row in found]


def defined_in(file: str) -> dict[str, ast.AsyncFunctionDef]:
    tree = ast.parse((SUITE / file).read_text())
    return {one.name: one for one in tree.body if isinstance(one, ast.AsyncFunctionDef)}


def named_by(test: ast.AsyncFunctionDef) -> set[tuple[str, int]]:
    """The cases in the docstring of a test."""
    first = (ast.get_docstring(test) or "").partition("\n")[0]
    return {(suite, number) for suite, text in NAMED.findall(first) for number in numbers(text)}


def test_each_case_is_shown_or_left_out() -> None:
    listed = {(suite, number) for suite, cases, _ in rows() for number in cases}
    assert listed == {(suite, number) for suite, count in COUNTS.items() for number in range(1, count + 1)}


def test_tests_of_the_table_show_their_cases() -> None:
    shown = [(suite, cases, match) for suite, cases, rest in rows() if (match := TEST.fullmatch(rest))]
    assert len(shown) > 40
    for suite, cases, row in shown:
        test = defined_in(row["file"]).get(row["test"])
        assert test is not None, row.group()
        assert {(suite, number) for number in cases} <= named_by(test), row.group()
        arguments = [one.arg for one in test.args.args]
        assert (row["modes"] == "both") == ("mode" in arguments), row.group()
