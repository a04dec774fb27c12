"""The properties of a queue that give its order a memory: names, bounds, and what is wrong with a value.

The configuration service and the core both check them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from remuda_proto import durations
from remuda_proto.bounds import shown

HALF_LIFE: Final = "fair.half-life"
AHEAD: Final = "fair.ahead"
PATIENCE: Final = "fair.patience"
WEIGHT: Final = "fair.weight"
GUARANTEED: Final = "fair.guaranteed"
USER_WEIGHTS: Final = "fair.user-weights"
NAMES: Final = (HALF_LIFE, AHEAD, PATIENCE, WEIGHT, GUARANTEED, USER_WEIGHTS)

# The default of AHEAD, which is at most the half-life, and of PATIENCE.
AHEAD_MS: Final = 5 * 60_000
PATIENCE_MS: Final = 48 * 3_600_000
FIRST: Final = "first"
PLAIN: Final = "plain"
# A weight is a number of thousandths.
WEIGHT_ONE: Final = 1_000

# Weights of users and groups in one property, each of which takes a place in memory.
MOST_USER_WEIGHTS: Final = 1_000
GROUP: Final = "@"  # before the name of a group

# A shorter half-life would have ranks computed in each pass; a longer one would be no memory, but a sum.
SHORTEST_MS: Final = 60_000
LONGEST_MS: Final = 87_840 * 3_600_000
_OF_WEIGHT: Final = "from 0.001 to 999999.999, with at most three decimals"
_WEIGHT: Final = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,3}))?", re.ASCII)


def problems(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, problem) of those of the properties that are named here."""
    for name in NAMES:
        if name in properties and (problem := _PROBLEMS[name](properties[name])):
            yield name, problem


def problems_together(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The same for values that do not fit each other. For those that a queue sets itself: of an inherited AHEAD no more
    counts than the half-life."""
    ahead, half_life = (durations.milliseconds(properties.get(name, "")) for name in (AHEAD, HALF_LIFE))
    if ahead is not None and half_life is not None and SHORTEST_MS <= half_life < ahead:
        yield AHEAD, f"{shown(properties[AHEAD])}: expected at most {HALF_LIFE}, {shown(properties[HALF_LIFE])}"


class UserWeights(NamedTuple):
    """Weights in thousandths, by name."""

    users: dict[str, int]
    groups: dict[str, int]

    def of(self, user: str, groups: Iterable[str]) -> int:
        """The weight of the user, else the largest of the user's groups, else 1."""
        found = self.users.get(user)
        if found is None:
            found = max((self.groups[one] for one in groups if one in self.groups), default=WEIGHT_ONE)
        return found


@lru_cache(maxsize=1_024)
def user_weights(text: str) -> UserWeights | str:
    """The weights in a text such as `alice=2, @physics=0.5`; or what is wrong with it."""
    found = UserWeights({}, {})
    entries = [one.strip() for one in text.split(",")]
    if len(entries) > MOST_USER_WEIGHTS:
        return f"{len(entries)} weights: expected at most {MOST_USER_WEIGHTS:,}"
    for entry in entries:
        name, _, number = (one.strip() for one in entry.rpartition("="))
        of_kind = found.groups if name.startswith(GROUP) else found.users
        name, thousandths = name.removeprefix(GROUP), weight(number)
        if not name or thousandths is None:
            return f"{shown(entry)}: expected NAME=WEIGHT, or {GROUP}GROUP=WEIGHT, with weights {_OF_WEIGHT}"
        if name in of_kind:
            return f"{shown(entry)}: expected each name once"
        of_kind[name] = thousandths
    return found


def weight(text: str) -> int | None:
    """A weight in thousandths, 1 or more; None: the text is no weight."""
    found = _WEIGHT.fullmatch(text)
    return int(found[1]) * WEIGHT_ONE + int(f"{found[2] or '0':0<3}") or None if found else None


def _problem_of_half_life(text: str) -> str | None:
    if SHORTEST_MS <= (durations.milliseconds(text) or 0) <= LONGEST_MS:
        return None
    expected = "expected a duration from 1m to 87840h, such as 168h; without a half-life there is no memory"
    return f"{shown(text)}: {expected}"


def _problem_of_ahead(text: str) -> str | None:
    return f"{shown(text)}: {durations.EXPECTED}, or 0" if durations.milliseconds(text) is None else None


def _problem_of_patience(text: str) -> str | None:
    return f"{shown(text)}: {durations.EXPECTED}, or 0 for never" if durations.milliseconds(text) is None else None


def _problem_of_weight(text: str) -> str | None:
    if weight(text):
        return None
    return f"{shown(text)}: expected a number {_OF_WEIGHT}"


def _problem_of_user_weights(text: str) -> str | None:
    found = user_weights(text)
    return found if isinstance(found, str) else None


def _problem_of_guaranteed(text: str) -> str | None:
    return None if text.lower() in (FIRST, PLAIN) else f"{shown(text)} is unknown: expected {FIRST}, {PLAIN}"


_PROBLEMS: Final = {
    HALF_LIFE: _problem_of_half_life,
    AHEAD: _problem_of_ahead,
    PATIENCE: _problem_of_patience,
    WEIGHT: _problem_of_weight,
    GUARANTEED: _problem_of_guaranteed,
    USER_WEIGHTS: _problem_of_user_weights,
}
