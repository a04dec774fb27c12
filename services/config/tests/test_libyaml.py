"""libyaml composes the same as the slow composer, for every text that it accepts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_config import limits
from remuda_config.build import BUILT_IN
from remuda_config.schema import NotYaml, libyaml, read_yaml, yaml_document
from services.config.tests.test_edits import BLOCK, FLOW

PIECES = (
    "- ", "a", "b: ", ": ", ":", "{", "}", "[", "]", ", ", "'", '"', "\n", "  ", "#", "|", "\n  ", ">", "&x ", "*x",
    "<<: ", "!!str ", "!x ", "? ", "---\n", "...\n", "%YAML 1.1\n", "1", "1e3", "010", "yes", "~", "null", "\t", "\\",
    "é", "@", "%", "\r\n", "2001-01-01", "\ufeff", "\x85",
)  # fmt: skip


def read(text: str, slowly: bool):
    with pytest.MonkeyPatch.context() as patch:
        if slowly:
            patch.setattr(libyaml, "compose", lambda _: None)
        try:
            document = read_yaml(text)
            return document.content, document.lines, document.findings
        except NotYaml as error:
            return error.line, error.message


def check(text: str) -> None:
    assert read(text, slowly=False) == read(text, slowly=True)


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text(text):
    check(text)


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(st.sampled_from([BLOCK, FLOW, BUILT_IN]), st.integers(0, 2_000), st.integers(0, 2), st.sampled_from(PIECES))
def test_a_text_with_a_change(text, at, length, piece):
    at = min(at, len(text))
    check(text[:at] + piece + text[at + length :])


def test_it_takes_part():
    assert yaml_document.compose is not libyaml.compose
    for text in (BLOCK, FLOW, BUILT_IN):
        assert libyaml.compose(text) is not None


def test_bounds_are_judged_by_the_slow_composer(monkeypatch):
    monkeypatch.setattr(limits, "MAX_NODES", 10)
    assert libyaml.compose(BLOCK) is None
    monkeypatch.undo()
    assert libyaml.compose("a: " + "[" * (limits.MAX_DEPTH + 2) + "]" * (limits.MAX_DEPTH + 2)) is None
    assert libyaml.compose("partitions: [" + "{}, " * (limits.MAX_PARTITIONS + 1) + "]") is None
