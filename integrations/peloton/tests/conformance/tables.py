"""Reads the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("entitlement", "admission", "validation", "ranker", "scorer", "transition", "rpc")


class Case(NamedTuple):
    """`trees`: pools by the name of a tree, for the whole file."""

    kind: str
    name: str
    given: dict[str, Any]
    expect: dict[str, Any]
    trees: dict[str, list[dict[str, Any]]]

    def pools(self, given: Any) -> list[dict[str, Any]]:
        """Pools, or those of the tree with this name."""
        pools: list[dict[str, Any]] = self.trees[given] if isinstance(given, str) else given
        return pools


def files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.json")) if json.loads(path.read_text()).get("kind") in KINDS]


def read(path: Path) -> list[Case]:
    """Raises ValueError if the file has another format."""
    table = json.loads(path.read_text())
    if table.get("format") != 1:
        raise ValueError(f"{path}: format is {table.get('format')!r}, expected 1")
    return [
        Case(one.get("kind", table["kind"]), one["name"], one["given"], one["expect"], table.get("trees", {}))
        for one in table["cases"]
    ]
