"""Draws a chart of the measurements in placement.md from a table there.

python -m docs.placement [--check]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from docs.sections import main

DOCUMENT = Path(__file__).with_name("placement.md")
WAITING = "| load 0.85 | gangs in one rack |"


def table(text: str, head: str) -> list[list[str]]:
    """The cells of the rows below the head of a table, without marks of bold text and of code."""
    lines = text[text.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[re.sub(r"[*`]", "", cell).strip() for cell in line.strip("|").split("|")] for line in lines]


def number(cell: str) -> float:
    """The first number of a cell such as `96.09 / 96.21` or `89.2 %`."""
    found = re.search(r"\d+(?:\.\d+)?", cell)
    assert found is not None, f"{cell!r}: expected a number"
    return float(found[0])


def chart(title: str, unit: str, names: Sequence[str], low: float, high: float, bars: Sequence[float]) -> str:
    named = ", ".join(f'"{name}"' for name in names)
    lines = ["```mermaid", "xychart-beta", f'    title "{title}"', f"    x-axis [{named}]"]
    lines += [f'    y-axis "{unit}" {low:g} --> {high:g}', f"    bar [{', '.join(f'{one:g}' for one in bars)}]"]
    return "\n".join([*lines, "```", ""])


def waiting(text: str) -> str:
    rows = table(text, WAITING)
    names = [re.sub(r", (the first rack that fits|pack: topology)", "", row[0]) for row in rows]
    title = "GPUs allocated while a job waits, gangs of racks"
    return chart(title, "%", names, 70, 100, [number(row[2]) for row in rows])


if __name__ == "__main__":
    main(DOCUMENT, {"<!-- written by docs/placement.py: waiting -->": waiting(DOCUMENT.read_text())})
