"""Plays the golden scenarios in this process. Imports the core: a mutant has to be put in before."""

from __future__ import annotations

import difflib

from tests.golden.test_golden import Scenario, all_scenarios, files_of_sections, play


def first_that_differs(section: str, in_full: bool = False) -> str:
    """The title of the first scenario, those of the section first; empty where none differs. `in_full`: and how."""
    files = files_of_sections().get(section, ())
    ranks = {f"{name}.txt": rank for rank, name in enumerate(files)}
    for scenario in sorted(all_scenarios(), key=lambda each: ranks.get(each.file, len(ranks))):
        difference = differs(scenario)
        if difference:
            return "\n".join([*(difference if in_full else ()), str(scenario)])
    return ""


def differs(scenario: Scenario) -> list[str]:
    expected = [text for _, text in scenario.text]
    try:
        happened = play(scenario)
    except Exception as error:  # noqa: BLE001 - whatever a broken rule leads to
        return [f"{type(error).__name__}: {error}"]
    while expected and not expected[-1].strip():
        expected.pop()
    while happened and not happened[-1].strip():
        happened.pop()
    return list(difflib.unified_diff(expected, happened, "expected", "happens", lineterm=""))
