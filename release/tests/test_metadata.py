"""The distributions say one version and the same dependencies as requirements.in."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution, requires, version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "release" / "version.txt").read_text().strip()
PROJECTS = sorted(
    file
    for file in [
        *ROOT.glob("*/pyproject.toml"),
        *ROOT.glob("services/*/pyproject.toml"),
        *ROOT.glob("integrations/*/pyproject.toml"),
    ]
    if ".venv" not in str(file)
)
NAMES = [tomllib.loads(file.read_text())["project"]["name"] for file in PROJECTS]


def dependencies(file: Path) -> list[str]:
    document: dict[str, Any] = tomllib.loads(file.read_text())
    extras = document["project"].get("optional-dependencies", {})
    return [
        *document["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"],
        *(dependency for extra in extras.values() for dependency in extra),
    ]


def test_there_are_fourteen() -> None:
    assert len(NAMES) == 14


@pytest.mark.parametrize("name", NAMES)
def test_each_has_the_one_version_and_complete_metadata(name: str) -> None:
    found = distribution(name).metadata
    assert version(name) == VERSION
    assert found["License-Expression"] == "Apache-2.0"
    assert sorted(found.get_all("License-File") or []) == ["LICENSE", "NOTICE"]
    assert found["Summary"] and found["Requires-Python"] == ">=3.11" and found["Description-Content-Type"]


@pytest.mark.parametrize("name", NAMES)
def test_each_needs_exactly_this_version_of_the_others(name: str) -> None:
    ours = [one for one in requires(name) or [] if one.startswith("remuda-") and "extra" not in one]
    assert all(one.endswith(f"=={VERSION}") for one in ours)


def test_requirements_name_what_the_distributions_need() -> None:
    """One that only the lock file names is missing where someone installs the wheels."""
    lines = (ROOT / "requirements.in").read_text().splitlines()
    locked = {line for line in lines if line and not line.startswith("#")}
    needed = {one for file in PROJECTS for one in dependencies(file) if re.split(r"[\[-]", one)[0] != "remuda"}
    assert needed == locked


def test_the_changelog_begins_with_this_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == VERSION
