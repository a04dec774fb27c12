"""Changes that are shown first, and made when the user agrees."""

from __future__ import annotations

import sys

import typer

from ..errors import UserError

CANCELLED = "cancelled; nothing was changed"


def check_that_it_can_ask(yes: bool, why: str = "--preview asks before it goes on", can_ask: bool = True) -> None:
    """Raises UserError, before anything is shown, when a question could not be answered. `can_ask`: on a terminal."""
    if not yes and not (can_ask and sys.stdin.isatty()):
        raise UserError(f"{why}: run it on a terminal or add --yes")


def ask(question: str, yes: bool) -> None:
    """Returns if the user agrees, or has agreed by `yes`; else raises UserError."""
    if not yes and not typer.confirm(f"\n{question}"):
        raise UserError(CANCELLED)


def have_typed(name: str, yes: bool) -> None:
    """Returns if the user types the name, or has agreed by `yes`; else raises UserError."""
    if not yes and typer.prompt(f"Type {name} to go on", default="", show_default=False) != name:
        raise UserError(CANCELLED)
