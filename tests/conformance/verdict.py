"""Equal, explained, different or failed: what a comparison comes to.

A difference is explained when a kind (`kinds/`) recognises it from the data. Some kinds change what is allocated:
from that step on, nothing can be compared step by step any more, and the rest of the scenario is held only to what is
always true (which the player checks after every step).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from . import in_process
from .answer import Answers
from .case import Case
from .compare import FINAL, Difference, differences
from .in_process import COMPATIBILITY
from .kinds import KINDS, Kind, sums
from .recording import Recording, Scenario
from .reference_rules import Rule, in_force

EQUAL, EXPLAINED, DIFFERENT, FAILED = VERDICTS = ("equal", "explained", "different", "failed")
Play = Callable[[Scenario, str], Answers]
BY_ITSELF: Final = "it schedules by itself, and ends like the core alone"
AT_ALL_STEPS: Final = 1_000_000


@dataclass
class Verdict:
    """`kinds`: what explains the differences, each with how many; `unexplained`: in the order of the steps."""

    name: str
    deterministic: bool
    word: str = EQUAL
    kinds: dict[str, int] = field(default_factory=dict)
    unexplained: list[Difference] = field(default_factory=list)
    error: str = ""
    # From which step on nothing could be compared any more; None: everything was.
    parted_at: int | None = None
    # Kinds for which the reference's rule was played, to compare what followed.
    played: list[str] = field(default_factory=list)
    case: Case | None = None

    def summary(self) -> str:
        """In one line: why it is what it is."""
        if self.word == FAILED:
            return self.error.strip().rpartition("\n")[2]
        if self.word == DIFFERENT:
            return str(self.unexplained[0])
        return "; ".join(self.kinds)


def judge(recording: Recording, play: Play, compatibility: str = COMPATIBILITY) -> Verdict:
    verdict = Verdict(recording.scenario.name, recording.deterministic)
    try:
        _judge(verdict, recording, play, compatibility)
    except Exception:  # noqa: BLE001 - whatever it is, it is the verdict on this scenario
        verdict.word, verdict.error = FAILED, traceback.format_exc()
        return verdict
    if verdict.unexplained:
        verdict.word = DIFFERENT
    elif verdict.kinds:
        verdict.word = EXPLAINED
    return verdict


def judge_ends(recording: Recording, play: Play, compatibility: str = COMPATIBILITY) -> Verdict:
    """Of a play that schedules by itself: what is allocated and pending in each queue in the end. Many scenarios tell
    the reference when to schedule and how often, so its end may be another; then the end has to be that of the core
    alone, with the same scenario, scheduling by itself."""
    scenario, verdict = recording.scenario, Verdict(recording.scenario.name, recording.deterministic)
    try:
        ours, theirs = (sums(final) for final in (play(scenario, compatibility).final, recording.trace["final"]))
        if ours != theirs:
            alone = sums(in_process.play(replace(scenario, manual=False), compatibility).final)
            explained = ours == alone or not recording.deterministic
            against = theirs if explained else alone
            verdict.unexplained = [
                Difference(FINAL, ("queues", queue), ours.get(queue), against.get(queue))
                for queue in sorted(ours.keys() | against.keys())
                if ours.get(queue) != against.get(queue)
            ]
            verdict.word = EXPLAINED if explained else DIFFERENT
            verdict.kinds = {BY_ITSELF: len(verdict.unexplained)} if explained else {}
    except Exception:  # noqa: BLE001 - whatever it is, it is the verdict on this scenario
        verdict.word, verdict.error = FAILED, traceback.format_exc()
    return verdict


@dataclass
class Comparison:
    """One play against the recording. `played`: kinds with the reference's rule that was in force. `partings`: kinds
    that may make the answers part, each with the step from which on, the first one first."""

    case: Case
    played: list[tuple[Kind, Rule]]
    kinds: Counter[str] = field(default_factory=Counter)
    unexplained: list[Difference] = field(default_factory=list)
    partings: list[tuple[int, Kind]] = field(default_factory=list)

    @property
    def parts_at(self) -> int:
        """The first step with a difference that no kind explains by itself."""
        return min((_place(each) for each in self.unexplained), default=AT_ALL_STEPS + 1)

    @property
    def reach(self) -> tuple[int, int]:
        """How far the answers agree: up to which step, and the fewer differences it has the better."""
        return self.parts_at, -sum(_place(each) == self.parts_at for each in self.unexplained)


def _place(difference: Difference) -> int:
    return AT_ALL_STEPS if difference.step == FINAL else difference.step


def _judge(verdict: Verdict, recording: Recording, play: Play, compatibility: str) -> None:
    """Plays it with our rules first. Where the answers part because of a kind that names the reference's rule, plays it
    again with that rule, until everything is explained, or nothing explains what is left."""

    def compare(played: list[tuple[Kind, Rule]]) -> Comparison:
        with in_force([rule for _, rule in played]):
            ours = play(recording.scenario, compatibility).as_trace()
        in_any_order = any(kind.in_any_order for kind, _ in played)
        case = Case(recording.scenario, ours, recording.trace, recording.deterministic, in_any_order)
        return _explain(Comparison(case, played))

    found = compare([])
    while found.unexplained and (closer := _closer(found, compare)) is not None:
        found = closer
    verdict.case = found.case  # of the same play as the differences
    _leave_blind(verdict, found)
    verdict.unexplained = found.unexplained
    verdict.played = [kind.name for kind, _ in found.played]
    verdict.kinds = dict(found.kinds + Counter(verdict.played))


Rules = list[tuple[Kind, Rule]]


def _closer(found: Comparison, compare: Callable[[Rules], Comparison]) -> Comparison | None:
    """Plays one more rule of the reference, and returns the comparison if the answers agree further. Where no single
    rule helps, two are played at once: one may show its effect only where the other is in force, and its cause too.
    Rules that are tried first take the fewest plays; a kind with a choice of rules takes many."""
    ones, choices = _rules_of(found, choice=False), _rules_of(found, choice=True)
    best, with_one = found, []
    for one in ones:
        comparison = compare([*found.played, one])
        if comparison.parts_at > found.parts_at:
            return comparison
        best = max(best, comparison, key=_reach)
        with_one += [(one, other) for other in _rules_of(comparison, choice=False) if other not in ones]
    if best is not found:
        return best
    for pair in [*combinations(ones, 2), *with_one]:
        comparison = compare([*found.played, *pair])
        if comparison.parts_at > found.parts_at:
            return comparison
        best = max(best, comparison, key=_reach)
    if best is not found:
        return best
    for rules in [[each] for each in choices] + [[one, each] for one in ones for each in choices]:
        comparison = compare([*found.played, *rules])
        if not comparison.unexplained:
            return comparison
        best = max(best, comparison, key=_reach)
    return best if best is not found else None


def _rules_of(found: Comparison, choice: bool) -> Rules:
    """Those of kinds that may make the answers part where they do. `choice`: of kinds with several."""
    partings = [kind for since, kind in found.partings if since <= found.parts_at]
    return [(kind, rule) for kind in partings if (len(kind.reference_rules) > 1) == choice
            for rule in kind.reference_rules]  # fmt: skip


def _reach(comparison: Comparison) -> tuple[int, int]:
    return comparison.reach


def _explain(found: Comparison) -> Comparison:
    """Sorts the differences into what single kinds explain and what they do not."""
    case, played = found.case, [kind for kind, _ in found.played]
    for difference in differences(case.ours, case.theirs, case.in_any_order):
        kind = next((kind for kind in KINDS if kind.explains(case, difference)), None)
        if kind is None:
            found.unexplained.append(difference)
        else:
            found.kinds[kind.name] += 1
    steps = [(kind.taints_from(case), kind) for kind in KINDS if kind not in played]
    found.partings = sorted(((step, kind) for step, kind in steps if step is not None), key=lambda each: each[0])
    return found


def _leave_blind(verdict: Verdict, found: Comparison) -> None:
    """Steps after a difference whose rule cannot be played, or not to the end, are not compared."""
    partings = [(since, kind) for since, kind in found.partings if kind.leaves_blind(found.case)]
    partings += [(found.parts_at, kind) for kind, _ in found.played if kind.leaves_blind(found.case)]
    for since, kind in partings:
        if found.unexplained and since <= found.parts_at:
            found.kinds[kind.name] += len(found.unexplained)
            found.unexplained, verdict.parted_at = [], since
