"""Draws the life of an application into semantics.md, out of the table it lives by (remuda_core.rules.lifecycle).

    python docs/diagram.py [--check]

`--check` changes nothing and fails where the drawing is another than the table's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from remuda_core.rules import lifecycle
from remuda_core.settings import Timing

DOCUMENT = Path(__file__).with_name("semantics.md")
BEGIN, END = "<!-- drawn by docs/diagram.py -->\n", "<!-- end -->\n"
UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def diagram() -> str:
    timing = Timing()
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {lifecycle.NEW}: accepted"]
    for occasion, becomes in lifecycle.TRANSITIONS.items():
        for state, next_state in becomes.items():
            by_itself = lifecycle.TIMEOUTS.get(state, ("", ""))[1] == occasion
            time = f", after {duration(lifecycle.lasts_ms(state, timing))} at the latest" if by_itself else ""
            lines.append(f"    {state} --> {next_state}: {occasion}{time}")
    lines += [f"    {lifecycle.EXPIRED} --> [*]", "```"]
    return "\n".join(lines) + "\n"


def duration(ms: int) -> str:
    unit, size = next((unit, size) for unit, size in UNITS_MS if ms % size == 0)
    return f"{ms // size} {unit}"


def main(check: bool) -> None:
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, behind = rest.partition(END)
    drawn = f"{before}{BEGIN}{diagram()}{END}{behind}"
    if not check:
        DOCUMENT.write_text(drawn)
    elif drawn != text:
        sys.exit(f"{DOCUMENT}: the diagram is not the table's; `make docs` draws it")


if __name__ == "__main__":
    main(sys.argv[1:] == ["--check"])
