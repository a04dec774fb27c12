"""A suite: tests that are played together, as a smoke or in full, and the files that its result depends on."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("suites.toml")
# What every suite depends on.
ALWAYS = ("requirements-dev.lock", "conftest.py", "pyproject.toml")


@dataclass(frozen=True)
class Suite:
    """An entry of `suites.toml`, which says what the fields mean."""

    name: str
    full: str
    inputs: tuple[str, ...] = (".",)
    always: bool = False
    smoke: str = ""
    once: bool = False
    alone: bool = False
    within_s: float = 1200.0
    needs: str = ""

    def line(self, in_full: bool, commit: str) -> str:
        """The line for bash."""
        cache = f".pytest_cache/{re.sub('[^a-z]+', '-', self.name.lower())}"
        line = self.full if in_full or not self.smoke else self.smoke
        python = f".venv/bin/python -m pytest -q -o cache_dir={cache} $AGAIN"
        return line.replace("{pytest}", python).replace("{commit}", commit)

    def tree(self, commit: str = "HEAD") -> str:
        """Hash of the inputs as the commit has them, and of the entry itself."""
        command = ["git", "ls-tree", "-r", "--full-tree", commit, "--", *self.inputs, *ALWAYS]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        return hashlib.sha256(listed + self.full.encode()).hexdigest()[:16]


def read() -> list[Suite]:
    """All suites, in the order of the file."""
    content = tomllib.loads(FILE.read_text())
    return [_suite(entry, content["groups"]) for entry in content["suite"]]


def _suite(entry: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> Suite:
    return Suite(**{**entry, "inputs": tuple(_paths(entry.get("inputs", ["."]), groups))})


def _paths(inputs: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for one in inputs:
        yield from groups.get(one, (one,))
