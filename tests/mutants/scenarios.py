"""Plays the golden scenarios in this process. Imports the core: a mutant has to be put in before."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from integrations.peloton.tests.golden import test_golden as golden_peloton
from tests.golden.test_golden import Scenario, all_scenarios, files_of_sections, play

from .forecasts import SECTION as FORECASTS
from .ledger import SECTION as LEDGER
from .peloton import SECTION as PELOTON

Play = Callable[[Scenario], list[str]]


def first_that_differs(section: str, in_full: bool = False) -> str:
    """The title of the first scenario, those of the section first; empty where none differs. `in_full`: and how. A rule
    of Peloton's resource manager concerns its own scenarios alone, one of the ledger or of forecasts none; no
    section: all scenarios."""
    for scenario, play_it in _scenarios(section):
        difference = differs(scenario, play_it)
        if difference:
            return "\n".join([*(difference if in_full else ()), str(scenario)])
    return ""


def _scenarios(section: str) -> list[tuple[Scenario, Play]]:
    of_peloton: list[tuple[Scenario, Play]] = []
    if section in ("", PELOTON):
        of_peloton = [(each, golden_peloton.play) for each in golden_peloton.all_scenarios()]
    if section in (PELOTON, LEDGER, FORECASTS):
        return of_peloton
    files = files_of_sections().get(section, ())
    ranks = {f"{name}.txt": rank for rank, name in enumerate(files)}
    ranked = sorted(all_scenarios(), key=lambda each: ranks.get(each.file, len(ranks)))
    return [*((each, play) for each in ranked), *of_peloton]


def differs(scenario: Scenario, play_it: Play) -> list[str]:
    expected = [text for _, text in scenario.text]
    try:
        happened = play_it(scenario)
    except Exception as error:  # noqa: BLE001 - whatever a broken rule leads to
        return [f"{type(error).__name__}: {error}"]
    while expected and not expected[-1].strip():
        expected.pop()
    while happened and not happened[-1].strip():
        happened.pop()
    return list(difflib.unified_diff(expected, happened, "expected", "happens", lineterm=""))
