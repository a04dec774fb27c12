"""Recorded answers, and the scenarios that led to them: a folder with `scenario.json` and, below it, a file for each
answer (FORMAT.md section 7). A recording belongs to the step of the scenario whose number it has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..recording import Json, Scenario, read_scenario


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request. `body`: decoded JSON; None: it is none."""

    status: int
    headers: dict[str, str]
    text: str
    body: Any

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), "")


@dataclass(frozen=True, slots=True)
class Recorded:
    name: str
    step: int
    request: Json
    answer: Answer
    # How many partitions the scenario's configuration has.
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Recordings:
    name: str
    scenario: Scenario
    answers: tuple[Recorded, ...]


def folders_in(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.rglob("scenario.json"))


def read(folder: Path, name: str) -> Recordings:
    scenario = read_scenario(json.loads((folder / "scenario.json").read_text()))
    files = sorted(file for file in folder.rglob("*.json") if folder in file.parents)
    found = [(file, json.loads(file.read_text())) for file in files if file.name not in ("scenario.json", "index.json")]
    partitions = len((yaml.safe_load(scenario.config) or {}).get("partitions") or (None,))
    answers = [
        _read(folder, str(file.relative_to(folder)), written, partitions)
        for file, written in found
        if "request" in written
    ]
    return Recordings(name, scenario, tuple(sorted(answers, key=lambda one: one.step)))


def _read(folder: Path, name: str, written: Json, partitions: int) -> Recorded:
    """The text of metrics may be in a file of its own, for its size."""
    text, metrics = written["body_text"], folder / "metrics" / "metrics.txt"
    if written["request"]["path"].endswith("/metrics") and "# TYPE" not in text and metrics.exists():
        text = metrics.read_text()
    answer = Answer(written["status"], written["headers"], text, written["body"])
    return Recorded(name.removesuffix(".json"), written["step"], written["request"], answer, partitions)
