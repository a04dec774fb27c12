"""The content of `remuda.yaml`: texts by key, each with its line."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from remuda_proto.bounds import shown

Text = str | list[str]


class NotSettings(ValueError):
    """The file cannot be read as settings at all. The message names the file, and the line where there is one."""


@dataclass(slots=True)
class SettingsFile:
    """`values`: text and line of each known key that the file sets. `problems`: one line each, with file and line."""

    path: Path
    values: dict[str, tuple[Text, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def unknown_key(key: str, known: Collection[str]) -> str:
    """The message for a key that does not exist: with the nearest one that does."""
    ends = {one.rpartition(".")[2]: one for one in known}
    near = difflib.get_close_matches(key, known, 1) or [
        ends[end] for end in difflib.get_close_matches(key.rpartition(".")[2], ends, 1, 0.8)
    ]
    return f"unknown key {shown(key)}{f', expected {near[0]}?' if near else ''}"
