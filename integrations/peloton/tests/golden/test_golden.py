"""Runs the scenarios beside this file: see README.md. GOLDEN_UPDATE=1 writes down what happens instead of comparing."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from remuda_peloton.facts import kinds
from remuda_peloton.settings import Settings
from tests.golden.language import Unreadable, read
from tests.golden.test_golden import HAPPENS, NOTHING, TITLE, UPDATE, Scenario, scenarios

from .language import Notes
from .telling import TABLE

FOLDER = Path(__file__).parent / "scenarios"
DIFFERENCES = Path(__file__).parents[4] / "docs" / "differences-peloton.md"


def play(scenario: Scenario) -> list[str]:
    """The scenario's lines again, with what happens at its end, or where it has a `----`."""
    with ExitStack() as bounds:
        return _play(scenario, Notes(bounds))


def _play(scenario: Scenario, notes: Notes) -> list[str]:
    happened, result = list[str](), list[str]()
    in_answer = False
    for number, text in scenario.text:
        if text == HAPPENS:
            result += [text, *(happened or [NOTHING])]
            happened, in_answer = [], True
            continue
        if in_answer and text[:1].isupper():
            continue
        in_answer = False
        result.append(text)
        if text.strip() and not text.startswith(("#", TITLE)):
            happened += notes.carry_out(read(f"{scenario.file}:{number}", text))
    if happened:
        while not result[-1].strip():
            result.pop()
        result += [HAPPENS, *happened, ""]
    notes.finish()
    return result


def all_scenarios() -> list[Scenario]:
    return [one for path in sorted(FOLDER.glob("*.txt")) for one in scenarios(path.name, path.read_text())]


@pytest.mark.parametrize("scenario", [] if UPDATE else all_scenarios(), ids=str)
def test_scenario(scenario: Scenario) -> None:
    expected = [text for _, text in scenario.text]
    assert "\n".join(play(scenario)).rstrip() == "\n".join(expected).rstrip(), f"{scenario.file}:{scenario.text[0][0]}"


if UPDATE:

    def test_rewrite() -> None:
        for path in sorted(FOLDER.glob("*.txt")):
            text = path.read_text()
            head = text.partition(TITLE)[0]
            path.write_text(
                head + "\n".join("\n".join(play(one)) for one in scenarios(path.name, text)).rstrip() + "\n"
            )


def test_every_fact_has_a_line() -> None:
    assert set(TABLE) == set(kinds())


def test_each_difference_names_a_scenario_that_shows_it() -> None:
    shown_in = ("corrected", "rules", "settings")
    titles = {one.title for one in all_scenarios() if str(one).startswith(shown_in)}
    listed, _, _ = DIFFERENCES.read_text().partition("\n## As Peloton")
    named = re.findall(r"^- (?:.*: )?`(.+)`$", listed, flags=re.MULTILINE)
    assert len(named) == len(re.findall(r"^- ", listed, flags=re.MULTILINE)) > 25
    assert set(named) <= titles, sorted(set(named) - titles)


def test_what_cannot_be_read_names_file_and_line() -> None:
    for text, complaint in (
        ("frobnicate", "f.txt:2: frobnicate: expected one of"),
        ("capacity cpu=1 men=2", "f.txt:2: capacity: men: not known here"),
        ("capacity cpu=1\nset preemption_enabled=false", "f.txt:3: set: expected before everything else"),
        ("show me", "f.txt:2: show: me: expected some of entitlements"),
    ):
        (scenario,) = scenarios("f.txt", f"{TITLE}bad\n{text}")
        with pytest.raises(Unreadable) as raised:
            play(scenario)
        assert str(raised.value).startswith(complaint)


def test_settings_that_correct_have_scenarios() -> None:
    """The settings that change numbers: those behind the empty line in Settings."""
    names = Settings.__struct_fields__
    corrections = names[names.index("scale_reservations") :]
    text = (FOLDER / "settings.txt").read_text()
    assert not [name for name in corrections if f"{name}=true" not in text]
