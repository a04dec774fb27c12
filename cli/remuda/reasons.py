"""Why an ask waits, in words and units a person reads. Pure; the core says what is in the way."""

from __future__ import annotations

import re

from .queries import Ask, Constraint
from .terminal import amount

_AMOUNT = re.compile(r"\b(vcore|memory|gpu)=(\d+)\b")


def of_ask(ask: Ask) -> list[str]:
    """What is in its way, the first thing first; never empty."""
    return [_in_words(constraint) for constraint in ask.constraints] or [ask.reason or "no reason given"]


def shortened(text: str) -> str:
    """A reason as the core words it for programs, with its amounts (`memory=1073741824`) as people read them."""
    return _AMOUNT.sub(lambda found: f"{found[1]} {amount(found[1], int(found[2]))}", text)


def _in_words(constraint: Constraint) -> str:
    if not constraint.resource:
        return constraint.reason or constraint.constraint
    need, have = (amount(constraint.resource, max(0, value)) for value in (constraint.need, constraint.have))
    if constraint.constraint == "queue":
        return f"queue {constraint.where} is full: needs {constraint.resource} {need}, {have} left"
    if constraint.constraint == "node":
        return f"no node has room: needs {constraint.resource} {need}, closest has {have}"
    return constraint.reason
