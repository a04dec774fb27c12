"""libyaml reads and composes the same as the slow composer, for every text that it accepts."""

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


def read(text: str, *without: str):
    with pytest.MonkeyPatch.context() as patch:
        for name in without:
            patch.setattr(libyaml, name, lambda *_: None)
        try:
            document = read_yaml(text)
            document.line(())  # lines are found when they are needed
            return document.content, document.lines, document.findings
        except NotYaml as error:
            return error.line, error.message


def check(text: str) -> None:
    slowest = read(text, "read", "compose")
    assert read(text) == slowest
    assert read(text, "read") == slowest


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


def test_a_mapping_as_a_key():
    """libyaml takes it for one; by YAML 1.2 the text is an error."""
    check("a: [{b: c}:]")


def test_it_takes_part():
    assert yaml_document.compose is not libyaml.compose
    for text in (BLOCK, FLOW, BUILT_IN):
        assert libyaml.compose(text) is not None
        assert read_yaml(text).unplaced


def test_bounds_are_judged_by_the_slow_composer(monkeypatch):
    monkeypatch.setattr(limits, "MAX_NODES", 10)
    assert refused(BLOCK)
    monkeypatch.undo()
    assert refused("a: " + "[" * (limits.MAX_DEPTH + 2) + "]" * (limits.MAX_DEPTH + 2))
    assert refused("partitions: [" + "{}, " * (limits.MAX_PARTITIONS + 1) + "]")


def refused(text: str) -> bool:
    return libyaml.compose(text) is None and libyaml.read(text, lambda *_: "") is None
