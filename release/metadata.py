"""Metadata that all distributions of this repository share, for hatchling: the one version, and the pins of the rooms.

A room's pyproject.toml lists its dependencies in `[tool.hatch.metadata.hooks.custom]`. Those on other rooms are pinned
to the same version here, because rooms of different versions are never tested together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VERSION = Path(__file__).with_name("version.txt").read_text().strip()
CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Intended Audience :: System Administrators",
    "Operating System :: POSIX :: Linux",
    *(f"Programming Language :: Python :: {version}" for version in ("3.11", "3.12", "3.13", "3.14")),
    "Topic :: System :: Clustering",
    "Topic :: System :: Distributed Computing",
    "Typing :: Typed",
]


class Metadata(MetadataHookInterface):
    """Fills in the fields that a room's pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["version"] = VERSION
        metadata["classifiers"] = CLASSIFIERS
        metadata["authors"] = [{"name": "The remuda authors"}]
        metadata["dependencies"] = [pinned(dependency) for dependency in self.config["dependencies"]]


def pinned(dependency: str) -> str:
    return f"{dependency}=={VERSION}" if dependency.startswith("remuda-") else dependency
