"""Reasons why an ask is pending, in words and units for people. Pure."""

from __future__ import annotations

import re

from remuda_bus.queries.rows import Ask, Constraint

from ..terminal.units import amount, number

_AMOUNT = re.compile(r"\b(vcore|memory|gpu)=(\d+)\b")


def reasons_of(ask: Ask) -> list[str]:
    """The constraints in order. Never empty."""
    return [_in_words(constraint) for constraint in ask.constraints] or [ask.reason or "no reason given"]


def waiting_time(ask: Ask, now_ms: float) -> str:
    """How long the ask has been pending, in total and for its first reason."""
    text = f"pending for {elapsed((now_ms - ask.since_ms) / 1_000)}"
    since_ms = ask.constraints[0].since_ms if ask.constraints else 0
    return f"{text}, for this reason for {elapsed((now_ms - since_ms) / 1_000)}" if since_ms else text


def position_of(ask: Ask) -> str:
    """The position of the ask in the order of its queue."""
    position = ask.position
    if position is None:
        return "position unknown"
    turns = [f"{turn.queue} is {ordinal(turn.place)} of {turn.among}" for turn in position.turns if turn.among > 1]
    own = f"{number(position.ahead)} of {number(position.waiting)} are ahead of it in {ask.queue}"
    return "; ".join([own, *turns])


def ordinal(place: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{place}{'th' if place % 100 in (11, 12, 13) else endings.get(place % 10, 'th')}"


def elapsed(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def with_units(text: str) -> str:
    """Replace amounts like `memory=1073741824` in a reason of the core by short ones."""
    return _AMOUNT.sub(lambda found: f"{found[1]} {amount(found[1], int(found[2]))}", text)


def _in_words(constraint: Constraint) -> str:
    if not constraint.resource:
        return constraint.reason or constraint.constraint
    need, have = (amount(constraint.resource, max(0, value)) for value in (constraint.need, constraint.have))
    if constraint.constraint == "queue":
        return f"queue {constraint.where} is full: needs {constraint.resource} {need}, {have} left"
    if constraint.constraint == "node" and constraint.where:
        return f"no node has room: needs {constraint.resource} {need}, closest has {have}"
    return constraint.reason
