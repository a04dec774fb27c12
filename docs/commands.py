"""Writes the list of commands into README.md, by the groups of `remuda --help`.

python -m docs.commands [--check]
"""

from __future__ import annotations

from pathlib import Path

import typer

from docs.sections import main
from remuda.main import cli

README = Path(__file__).resolve().parents[1] / "README.md"
MARKER = "<!-- written by docs/commands.py -->"


def table() -> str:
    """A row for each group: its commands, those with commands of their own with these behind them."""
    groups: dict[str, list[str]] = {}
    for name, command in typer.main.get_command(cli).commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", {})
        listed = f"`{name}` ({', '.join(parts)})" if parts else f"`{name}`"
        groups.setdefault(command.rich_help_panel, []).append(listed)
    lines = ["| | `remuda` ... |", "|---|---|"]
    lines += [f"| {group} | {', '.join(listed)} |" for group, listed in groups.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(README, {MARKER: table()})
