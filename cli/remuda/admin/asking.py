"""Changes that are shown first, and made when the user agrees."""

from __future__ import annotations

import sys

import typer

from ..errors import UserError


def check_that_it_can_ask(yes: bool) -> None:
    """Raises UserError, before anything is shown, when a question could not be answered."""
    if not yes and not sys.stdin.isatty():
        raise UserError("--preview asks before it goes on: run it on a terminal or add --yes")


def ask(question: str, yes: bool) -> None:
    """Returns if the user agrees, or has agreed by `yes`; else raises UserError."""
    if not yes and not typer.confirm(f"\n{question}"):
        raise UserError("cancelled; nothing was changed")
