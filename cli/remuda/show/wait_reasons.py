"""Reasons why an ask is pending, in words and units for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from remuda_operations.queries.rows import Constraint, ExplainedAsk, Holder, Holders, Step

from ..terminal.units import amount, number

# Amounts in texts of the core, in base units: `{memory=10 vcore=1000}` and `memory=10 vcore=1000`; `memory needs 10, 5
# of 20 are left, 5 are kept`; `memory=10, its maximum is 5`.
_NAME = r"[\w./-]+"
_LIST = rf"{_NAME}=\d+(?: {_NAME}=\d+)*"
_AMOUNTS = re.compile(rf"\{{({_LIST})\}}|(?<![\w./-])({_LIST})")
_NEEDS = re.compile(
    rf"(?<![\w./-])({_NAME}) needs (\d+), (\d+)(?: of (\d+))? (?:is|are) left(?:, (\d+) (?:is|are) kept)?"
)
_BOUND = re.compile(rf"(?<![\w./-])({_NAME})=(\d+), its (\w+) is (\d+)")
_HAVE_UNITS = ("vcore", "memory")


def alike(asks: Iterable[ExplainedAsk]) -> list[list[ExplainedAsk]]:
    """Asks of one application that want the same and wait for the same, in their order; the web page groups them by the
    same fields."""
    groups: dict[tuple[object, ...], list[ExplainedAsk]] = {}
    for ask in asks:
        wants = (ask.application, ask.partition, tuple(sorted(ask.resource.items())), ask.priority)
        waits = (tuple(by.reason for by in ask.constraints), ask.reason)
        groups.setdefault((wants, waits), []).append(ask)
    return list(groups.values())


def reasons_of(ask: ExplainedAsk) -> list[str]:
    """The constraints in order. Never empty."""
    return [_in_words(constraint) for constraint in ask.constraints] or [ask.reason or "no reason given"]


def waiting_time(ask: ExplainedAsk, now_ms: float) -> str:
    """The time for which the ask has been pending, in total and for its first reason, as text."""
    text = f"pending for {elapsed((now_ms - ask.since_ms) / 1_000)}"
    since_ms = ask.constraints[0].since_ms if ask.constraints else 0
    return f"{text}, for this reason for {elapsed((now_ms - since_ms) / 1_000)}" if since_ms else text


def position_of(ask: ExplainedAsk) -> str:
    """The position of the ask in the order of its queue."""
    position = ask.position
    if position is None:
        return "position unknown"
    turns = [f"{turn.queue} is {ordinal(turn.place)} of {turn.among}" for turn in position.turns if turn.among > 1]
    own = f"{number(position.ahead)} of {number(position.waiting)} are ahead of it in {ask.queue}"
    return "; ".join([own, *turns])


def holders_of(ask: ExplainedAsk, now_ms: float) -> Iterator[str]:
    """Yields for each constraint who holds what the ask waits for; "": nobody does."""
    for constraint in ask.constraints:
        holders = constraint.holders or Holders()
        names = [_holder(holder, constraint, now_ms) for holder in holders.rows]
        more = holders.total - len(names)
        if more > 0:
            names.append(f"{number(more)}{'' if holders.complete else ' or'} more")
        yield f"held by {'; '.join(names)}" if names else ""


def _holder(holder: Holder, constraint: Constraint, now_ms: float) -> str:
    parts = [f"{holder.application}/{holder.key}" if holder.key else holder.application]
    if holder.amount and constraint.resource:
        parts.append(f"{constraint.resource} {amount(constraint.resource, holder.amount)}")
    if holder.since_ms:
        parts.append(f"for {elapsed((now_ms - holder.since_ms) / 1_000)}")
    return " ".join(parts)


def earlier(ask: ExplainedAsk, now_ms: float) -> Iterator[str]:
    """The constraints that are over, the latest first."""
    for over in reversed(ask.history):
        what = " ".join(filter(None, (over.constraint, over.where, over.resource)))
        lasted = elapsed(((over.ended_ms or now_ms) - over.since_ms) / 1_000)
        ended = f"ended {elapsed((now_ms - over.ended_ms) / 1_000)} ago" if over.ended_ms else "over now"
        yield f"before: {what} for {lasted}, {ended}"


def in_words(step: Step) -> str:
    """A step of a change, with units."""
    ours = f"the limit of {step.who} in queue {step.where}" if step.who else f"the maximum of queue {step.where}"
    if step.resource:
        before, after, more = (
            amount(step.resource, each) for each in (step.before, step.after, step.after - step.before)
        )
        return f"{ours} is raised by {step.resource} {more}, from {before} to {after}"
    if step.capacity:
        added = ", ".join(f"{name} {amount(name, each)}" for name, each in sorted(step.capacity.items()))
        return f"{f'node {step.where}' if step.where else 'one more node'} is added, with {added}"
    return step.text


def ordinal(place: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{place}{'th' if place % 100 in (11, 12, 13) else endings.get(place % 10, 'th')}"


def elapsed(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def with_units(text: str) -> str:
    """Write the amounts in a text of the core or of a story for people: `memory=1073741824` as `memory 1Gi`."""
    for pattern, written in ((_BOUND, _bound), (_NEEDS, _needs), (_AMOUNTS, _amounts)):
        text = pattern.sub(written, text)
    return text


def _amounts(found: re.Match[str]) -> str:
    """The text with units. `{...}` is always read as amounts; other lists only if a resource in them has units, since
    they may be somebody's own words."""
    pairs = [one.split("=") for one in (found[1] or found[2]).split(" ")]
    if found[1] is None and not any(name in _HAVE_UNITS for name, _ in pairs):
        return found[0]
    return ", ".join(f"{name} {amount(name, int(value))}" for name, value in pairs)


def _needs(found: re.Match[str]) -> str:
    name, *values = found.groups()
    need, left, of, kept = (amount(name, int(value)) if value else "" for value in values)
    return f"{name} needs {need}, {left}{f' of {of}' if of else ''} are left{f', {kept} are kept' if kept else ''}"


def _bound(found: re.Match[str]) -> str:
    name = found[1]
    return f"{name} {amount(name, int(found[2]))}, its {found[3]} is {amount(name, int(found[4]))}"


def _in_words(constraint: Constraint) -> str:
    if not constraint.resource:
        return constraint.reason or constraint.constraint
    need, have = (amount(constraint.resource, max(0, value)) for value in (constraint.need, constraint.have))
    if constraint.constraint == "queue":
        return f"queue {constraint.where} is full: needs {constraint.resource} {need}, {have} left"
    if constraint.constraint == "node" and constraint.where:
        return f"no node has room: needs {constraint.resource} {need}, closest has {have}"
    if constraint.constraint == "too_large":
        needs = f"needs {constraint.resource} {need}, {constraint.where} can have {have}"
        return f"too large for every node it may be on: {needs}"
    return constraint.reason
