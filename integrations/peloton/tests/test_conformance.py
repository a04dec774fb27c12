"""The tables of Peloton's own tests, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrations.peloton.tests.conformance.__main__ import judge
from integrations.peloton.tests.conformance.tables import Case, files_in, read

FOLDER = Path(os.environ.get("REMUDA_CONFORMANCE", "../shared/conformance")) / "peloton"
CASES = [case for path in (files_in(FOLDER) if FOLDER.is_dir() else ()) for case in read(path)]


PLAYS = [(case, "core") for case in CASES] + [(case, "grpc") for case in CASES if case.kind == "rpc"]


@pytest.mark.skipif(not CASES, reason=f"there are no tables in {FOLDER} (REMUDA_CONFORMANCE names the folder above)")
@pytest.mark.parametrize(("case", "via"), PLAYS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_peloton_answers_the_same(case: Case, via: str) -> None:
    verdict = judge(case, via)
    assert verdict.word == "equal", (verdict.differences, verdict.error)
