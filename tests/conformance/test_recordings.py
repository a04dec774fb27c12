"""The reference's recordings, where they are at hand (REMUDA_CONFORMANCE names their folder)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import in_process, recording
from .verdict import DIFFERENT, FAILED, judge

FOLDER = Path(os.environ.get("REMUDA_CONFORMANCE", Path(__file__).parents[3] / "shared" / "conformance"))

pytestmark = pytest.mark.skipif(
    not recording.is_folder(FOLDER), reason=f"no recordings in {FOLDER} (set REMUDA_CONFORMANCE to their folder)"
)


@pytest.mark.parametrize("name", recording.names_in(FOLDER))
def test_nothing_differs_that_is_not_meant(name):
    verdict = judge(recording.read(FOLDER, name), in_process.play)
    assert verdict.word != FAILED, verdict.error
    assert verdict.word != DIFFERENT, f"make conformance NAME={name} tells more: {verdict.summary()}"
