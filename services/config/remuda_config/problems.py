"""The problems of a configuration: what is wrong, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
Finding = tuple[Path, str]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a text. `path`: such as `partitions[0].queues[1].resources.max.memory`. `line`:
    from 1; 0 when it is unknown.
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class Invalid(Exception):
    """The configuration is refused. `problems`: all of them, at least one, in the order of the text."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)


def spell(path: Path) -> str:
    """Returns the path as messages show it. Keys that are not plain words are quoted:
    `properties["priority.offset"]`.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text
