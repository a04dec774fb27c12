"""Draws the states of an application into semantics.md, from their table (remuda_core.rules.lifecycle).

python -m docs.diagram [--check]
"""

from __future__ import annotations

from pathlib import Path

from docs.sections import main
from remuda_core.rules import lifecycle
from remuda_core.settings import Timing

UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def diagram() -> str:
    timing = Timing()
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {lifecycle.NEW}"]
    for occasion, becomes in lifecycle.TRANSITIONS.items():
        for state, next_state in becomes.items():
            by_itself = lifecycle.TIMEOUTS.get(state, ("", ""))[1] == occasion
            time = f": within {duration(lifecycle.lasts_ms(state, timing))}" if by_itself else ""
            lines.append(f"    {state} --> {next_state}{time}")
    lines += [f"    {lifecycle.EXPIRED} --> [*]", "```"]
    return "\n".join(lines) + "\n"


def duration(ms: int) -> str:
    unit, size = next((unit, size) for unit, size in UNITS_MS if ms % size == 0)
    return f"{ms // size} {unit}"


if __name__ == "__main__":
    main(Path(__file__).with_name("semantics.md"), {"<!-- written by docs/diagram.py -->": diagram()})
