"""Equal, explained, different or failed: what a comparison comes to.

A difference is explained when a kind (`kinds.py`) recognises it from the data. Some kinds change what is allocated:
from that step on, nothing can be compared step by step any more, and the rest of the scenario is held only to what is
always true (which the player checks after every step).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from . import in_process
from .answer import Answers
from .case import Case
from .compare import FINAL, Difference, differences
from .in_process import COMPATIBILITY
from .kinds import KINDS, sums
from .recording import Recording, Scenario

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
        ours = play(recording.scenario, compatibility).as_trace()
        case = verdict.case = Case(recording.scenario, ours, recording.trace, recording.deterministic)
        found = differences(ours, recording.trace)
        _explain(verdict, case, found)
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


def _explain(verdict: Verdict, case: Case, found: list[Difference]) -> None:
    tainted = {kind.name: since for kind in KINDS if (since := kind.taints_from(case)) is not None}
    since, by = min(((step, name) for name, step in tainted.items()), default=(AT_ALL_STEPS, ""))
    for difference in found:
        kind = next((kind.name for kind in KINDS if kind.explains(case, difference)), None)
        if kind is None and (difference.step == FINAL or difference.step >= since) and by:
            kind, verdict.parted_at = by, since
        if kind is None:
            verdict.unexplained.append(difference)
        else:
            verdict.kinds[kind] = verdict.kinds.get(kind, 0) + 1
