"""The reference's recordings, where they are at hand (REMUDA_CONFORMANCE names their folder)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from . import in_process, recording, report
from .verdict import DIFFERENT, FAILED, Verdict, judge

FOLDER = Path(os.environ.get("REMUDA_CONFORMANCE", Path(__file__).parents[3] / "shared" / "conformance"))

pytestmark = pytest.mark.skipif(
    not recording.is_folder(FOLDER), reason=f"no recordings in {FOLDER} (set REMUDA_CONFORMANCE to their folder)"
)
# Steps of a scenario that are compared with nothing, of all steps.
BLIND_SHARE = 0.02


@cache
def verdict_on(name: str) -> Verdict:
    return judge(recording.read(FOLDER, name), in_process.play)


@pytest.mark.parametrize("name", recording.names_in(FOLDER))
def test_nothing_differs_that_is_not_meant(name):
    verdict = verdict_on(name)
    assert verdict.word != FAILED, verdict.error
    assert verdict.word != DIFFERENT, f"make conformance NAME={name} tells more: {verdict.summary()}"


def test_nearly_every_step_is_compared():
    verdicts = [verdict_on(name) for name in recording.names_in(FOLDER)]
    steps = sum(len(verdict.case.scenario.steps) for verdict in verdicts if verdict.case is not None)
    blind = {verdict.name: report.blind_steps([verdict]) for verdict in verdicts if verdict.parted_at is not None}
    assert sum(blind.values()) <= BLIND_SHARE * steps, f"of {steps} steps, not compared: {blind}"
