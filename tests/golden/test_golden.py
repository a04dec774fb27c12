"""Runs the scenarios beside this file: see README.md. GOLDEN_UPDATE=1 writes down what happens instead of comparing."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from remuda_core import facts
from remuda_core.limits import ALLOCATIONS_PER_NODE, MEASURE_AFTER_ALLOCATIONS
from tests.property.bounds import at_most_on_a_node, measured_after

from .language import FILE, Line, Notes, Unreadable, read
from .telling import GROUPS, TABLE, explained, given, story, tell, what_if

FOLDER = Path(__file__).parent / "scenarios"
SEMANTICS = Path(__file__).parents[2] / "docs" / "semantics.md"
TITLE, HAPPENS = "=== ", "----"
NOTHING = "Nothing"
UPDATE = os.environ.get("GOLDEN_UPDATE") == "1"


@dataclass
class Scenario:
    """`text`: its lines with their numbers in the file, from the title on."""

    file: str
    title: str
    text: list[tuple[int, str]]

    def __str__(self) -> str:
        return f"{self.file.removesuffix('.txt')}: {self.title}"


def scenarios(file: str, text: str) -> Iterator[Scenario]:
    found: Scenario | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(TITLE):
            if found is not None:
                yield found
            found = Scenario(file, line.removeprefix(TITLE), [])
        if found is not None:
            found.text.append((number, line))
        elif line.strip() and not line.startswith("#"):
            raise Unreadable(f"{file}:{number}: expected a title, {TITLE}...")
    if found is not None:
        yield found


def play(scenario: Scenario) -> list[str]:
    """The scenario's lines again, after each ---- what happened since the last."""
    with ExitStack() as bounds:
        return _play(scenario, bounds)


def _play(scenario: Scenario, bounds: ExitStack) -> list[str]:
    notes, shown, happened, result = Notes(), set[str](), list[str](), list[str]()
    rms = {notes.rm_id: notes}
    lines = scenario.text
    at = 0
    while at < len(lines):
        number, text = lines[at]
        at += 1
        if text == HAPPENS:
            while at < len(lines) and lines[at][1][:1].isupper():
                at += 1
            result += [text, *(happened or [NOTHING])]
            happened = []
            continue
        result.append(text)
        if not text.strip() or text.startswith(("#", TITLE)):
            continue
        line = read(f"{scenario.file}:{number}", text)
        while at < len(lines) and lines[at][1].startswith(" "):
            if line.word == FILE:
                line.text.append(lines[at][1])
            else:
                line.below.append(read(f"{scenario.file}:{lines[at][0]}", lines[at][1].strip()))
            result.append(lines[at][1])
            at += 1
        if line.word == "rm":
            name = line.one("rmID")
            notes = rms.setdefault(name, Notes(name))
        elif line.word == "show":
            shown = show(line)
        elif line.word == "explain":
            happened += explained(notes, line)
        elif line.word == "whatif":
            happened += what_if(notes, line)
        elif line.word == "bound":
            bounds.enter_context(at_most_on_a_node(line.number("node.allocations", ALLOCATIONS_PER_NODE)))
            bounds.enter_context(measured_after(line.number("measured.after", MEASURE_AFTER_ALLOCATIONS)))
            line.done()
        elif line.word == "story":
            happened += story(notes, line)
        elif line.word == FILE:
            happened += given(notes, line, shown)
        else:
            happened += tell(notes.carry_out(line), shown)
    if happened:
        result += [HAPPENS, *happened]
    for each in rms.values():
        each.world.finish()
    return result


def show(line: Line) -> set[str]:
    for name in line.names:
        if name not in GROUPS:
            raise line.wrong(f"{name}: expected some of {', '.join(GROUPS)}")
    return set(line.names)


def all_scenarios() -> list[Scenario]:
    return [s for path in sorted(FOLDER.glob("*.txt")) for s in scenarios(path.name, path.read_text())]


@pytest.mark.parametrize("scenario", [] if UPDATE else all_scenarios(), ids=str)
def test_scenario(scenario: Scenario) -> None:
    expected = [text for _, text in scenario.text]
    assert "\n".join(play(scenario)).rstrip() == "\n".join(expected).rstrip(), f"{scenario.file}:{scenario.text[0][0]}"


if UPDATE:

    @pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
    def test_rewrite(path: Path) -> None:
        text = path.read_text()
        head = text.partition(TITLE)[0]
        new = head + "\n".join("\n".join(play(scenario)) for scenario in scenarios(path.name, text)).rstrip() + "\n"
        if new != text:
            path.write_text(new)
            warnings.warn(f"rewrote {path.name}", stacklevel=1)


def files_of_sections() -> dict[str, list[str]]:
    """By the number of a section of the semantics: the files that show it."""
    lines = re.findall(r"^(\d+)\. (`.*`)$", (FOLDER.parent / "README.md").read_text(), flags=re.MULTILINE)
    return {number: re.findall(r"`(\w+)`", files) for number, files in lines}


def test_every_section_of_the_semantics_has_scenarios() -> None:
    files = files_of_sections()
    assert list(files) == re.findall(r"^## (\d+)\.", SEMANTICS.read_text(), flags=re.MULTILINE)
    assert {name for names in files.values() for name in names} == {path.stem for path in FOLDER.glob("*.txt")}


def test_every_fact_has_a_line() -> None:
    assert set(TABLE) == set(facts.kinds().values())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nodes n1 vcore=1\nfrobnicate n1", "f.txt:3: frobnicate: expected one of"),
        ("nodes n1 vcore=lots", "f.txt:2: nodes: vcore=lots: expected a whole number"),
        ("submit a queue=root.a usr=bob", "f.txt:2: submit: usr: not known here"),
        ("tick soon", "f.txt:2: tick: soon: expected a duration"),
        ("configure\n  nodes n1", "f.txt:3: nodes: expected one of partition"),
        ("queue a", "f.txt:2: queue: a: expected root or a path below it"),
        ("ask app-1 vcore=1", "f.txt:2: ask: app-1: expected app/key"),
        ("show me", "f.txt:2: show: me: expected some of states"),
        ("queues.yaml file=here\n  partitions: []", "f.txt:2: queues.yaml: file: not known here"),
    ],
)
def test_what_cannot_be_read_names_file_and_line(text: str, complaint: str) -> None:
    (scenario,) = scenarios("f.txt", f"{TITLE}bad\n{text}")
    with pytest.raises(Unreadable) as raised:
        play(scenario)
    assert str(raised.value).startswith(complaint)
