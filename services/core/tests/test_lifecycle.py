"""The life of an application: the table, and what the documents draw of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from remuda_core.rules import lifecycle

ROOT = Path(__file__).parents[3]


def test_the_diagram_in_the_documents_is_the_tables() -> None:
    command = [sys.executable, "-m", "docs.diagram", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_every_state_but_the_last_is_left_some_day_or_by_somebody() -> None:
    left = {state for become in lifecycle.TRANSITIONS.values() for state in become}
    states = left | {state for become in lifecycle.TRANSITIONS.values() for state in become.values()}
    assert left == states - {lifecycle.EXPIRED}
    assert states > lifecycle.TERMINAL
    for state, (_, transition) in lifecycle.TIMEOUTS.items():
        assert state in lifecycle.TRANSITIONS[transition], f"{state} ends by itself, and becomes nothing"
