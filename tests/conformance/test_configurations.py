"""The corpus of configurations, where it is at hand (REMUDA_CONFORMANCE names the folder around it)."""

from __future__ import annotations

import pytest

from . import configurations
from .recording import FOLDER

pytestmark = pytest.mark.skipif(
    not configurations.is_corpus(FOLDER), reason=f"no configurations in {FOLDER} (set REMUDA_CONFORMANCE)"
)


def test_corpus():
    results = configurations.corpus(FOLDER)
    assert {result.name: result.problems for result in results if result.problems} == {}
    assert any(result.word == "equal" for result in results)
