"""Which suites a run plays in full: those that are due, as far as they fit into the time, and one by rotation.

A suite is due when its inputs differ from those with which it last passed in full, by `.ci/full.json`. The rotation
looks at the commit alone, so a wrong entry of that file is found after some commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .suite import ROOT, Suite

FILE = ROOT / ".ci" / "full.json"
SMOKE_S = 60.0
AT_ONCE = 2  # suites that are not alone


@dataclass(frozen=True)
class Passed:
    """The newest commit with which a suite is known to have passed in full, the hash of its inputs there, and what
    that run took on a machine of two processors."""

    commit: str
    tree: str
    seconds: float


def recorded(path: Path = FILE) -> dict[str, Passed]:
    if not path.exists():
        return {}
    return {name: Passed(**entry) for name, entry in json.loads(path.read_text()).items()}


def record(passed: Mapping[str, Passed], path: Path = FILE) -> None:
    entries = {name: asdict(one) for name, one in sorted(passed.items())}
    path.write_text(json.dumps(entries, indent=1) + "\n")


@dataclass(frozen=True)
class Choice:
    """`due`: the full run is, whether it is played or not. `full`: it is played."""

    suite: Suite
    due: bool
    full: bool

    @property
    def word(self) -> str:
        if self.full:
            return "full"
        return "smoke; full is due, no time" if self.due else "smoke"


def choose(
    suites: Sequence[Suite], passed: Mapping[str, Passed], trees: Mapping[str, str], commit: str, seconds: float
) -> list[Choice]:
    """A choice for each, in their order. `trees`: hashes of the inputs now. `seconds`: the time for all of them.
    Smokes are always played. The suite by rotation is the first that fits; each commit begins with another one."""
    # What has never passed may take as long as it is let.
    known = {suite.name: passed.get(suite.name, Passed("", "", suite.within_s)) for suite in suites}
    due = {suite.name for suite in suites if known[suite.name].tree != trees[suite.name]}
    spare = seconds - sum(_takes(suite, known[suite.name], in_full=not suite.smoke) for suite in suites)
    in_full = {suite.name for suite in suites if not suite.smoke}
    rotating = [suite for suite in suites if suite.smoke]
    turn = int(commit, 16) % len(rotating) if rotating else 0
    rotated = False
    for suite in [*rotating[turn:], *rotating[:turn]]:
        one = known[suite.name]
        more = _takes(suite, one, in_full=True) - _takes(suite, one, in_full=False)
        if more <= spare and (suite.name in due or not rotated):
            in_full.add(suite.name)
            spare -= more
            rotated = True
    return [Choice(suite, suite.name in due, suite.name in in_full) for suite in suites]


def _takes(suite: Suite, passed: Passed, *, in_full: bool) -> float:
    seconds = passed.seconds if in_full else SMOKE_S
    return seconds if suite.alone else seconds / AT_ONCE
