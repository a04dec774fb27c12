"""The recorded pods of operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FOLDER = Path(__file__).parent / "recorded/operators"
NAMES = sorted(file.stem for file in FOLDER.glob("*.yaml"))


def pods_of(name: str) -> list[dict[str, Any]]:
    """The manifests of the pods, in the order in which they are created. The first one defines the gang, if any."""
    return list(YAML(typ="safe").load_all(FOLDER / f"{name}.yaml"))
