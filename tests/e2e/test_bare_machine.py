"""A stranger's first two commands, on a machine that has Python and nothing else."""

from __future__ import annotations

import os

import pytest

from tests.e2e.bare_machine import LOCKED, play

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.environ.get("REMUDA_E2E") != "1", reason="containers are for `make e2e`"),
]

LONGEST_S = 90


def test_two_commands_lead_from_python_to_the_page_of_the_demonstration() -> None:
    seen = play(LOCKED)
    assert "<html" in seen.page and seen.rms and seen.code == 0
    assert seen.total_s < LONGEST_S
