"""The distribution: its metadata, its packages, and the locks of what it needs."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
NAME, VERSION = PROJECT["name"], PROJECT["version"]
BUILD = PYPROJECT["tool"]["hatch"]["build"]
PACKAGES = [Path(one) for one in BUILD["targets"]["wheel"]["packages"]]
SEPARATE = ("docs", "helm", "release")  # in environments of their own
LOCKS = (
    "requirements.lock",
    "requirements-extras.lock",
    "requirements-dev.lock",
    *(f"requirements-{group}.lock" for group in SEPARATE),
)


def pinned(lock: str) -> dict[str, set[str]]:
    """The versions of a lock by name; there are several where systems need different ones."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / lock).read_text(), re.MULTILINE):
        versions.setdefault(name, set()).add(version)
    return versions


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


def test_the_metadata_is_complete() -> None:
    found = distribution(NAME).metadata
    assert (found["Name"], found["Version"]) == ("remuda-scheduler", VERSION)
    assert found["License-Expression"] == "Apache-2.0"
    assert {"LICENSE", "NOTICE"} <= set(found.get_all("License-File") or [])
    assert found["Summary"] and found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    extras = set(found.get_all("Provides-Extra") or [])
    assert extras == {"archive", "kubernetes", "parquet", "peloton", "telemetry", "plot", "dev"}
    [command] = distribution(NAME).entry_points
    assert (command.group, command.name) == ("console_scripts", "remuda")


def test_every_package_of_the_repository_is_in_it() -> None:
    rooms = [folder for pattern in ("", "services/", "integrations/") for folder in ROOT.glob(f"{pattern}*/remuda*")]
    packages = {folder.relative_to(ROOT) for folder in rooms if (folder / "py.typed").exists()}
    assert set(PACKAGES) == packages
    assert BUILD["dev-mode-dirs"] == [str(package.parent) for package in PACKAGES]
    assert set(map(str, PACKAGES)) <= set(BUILD["targets"]["sdist"]["only-include"])
    first_party = PYPROJECT["tool"]["ruff"]["lint"]["isort"]["known-first-party"]
    assert first_party == sorted(package.name for package in PACKAGES) == PYPROJECT["tool"]["mypy"]["packages"]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert entries and all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


def test_locks_have_what_is_needed_and_nothing_for_tests_where_remuda_runs() -> None:
    """A dependency that only the lock names would be missing where someone installs the wheel."""
    extras = PROJECT["optional-dependencies"]
    heavy = names([one for extra, of in extras.items() if extra != "dev" for one in of])
    needed, run, with_extras = (
        names(PROJECT["dependencies"]),
        pinned("requirements.lock"),
        pinned("requirements-extras.lock"),
    )
    assert needed | names(PYPROJECT["dependency-groups"]["build"]) <= set(run)
    assert needed | heavy <= set(with_extras)
    assert needed | heavy | names(extras["dev"]) <= set(pinned("requirements-dev.lock"))
    for group in SEPARATE:
        assert names(PYPROJECT["dependency-groups"][group]) <= set(pinned(f"requirements-{group}.lock"))
    assert not names(extras["dev"]) & {*run, *with_extras}
    assert not {"numpy", "matplotlib", "aiohttp", "opentelemetry-sdk"} & set(run)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-extras.lock"])
def test_what_runs_is_what_was_tested(lock: str) -> None:
    tested = pinned("requirements-dev.lock")
    assert {name: versions for name, versions in pinned(lock).items() if tested.get(name) != versions} == {}


def test_the_changelog_begins_with_this_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == VERSION
