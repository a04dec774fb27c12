"""Regular expressions from outside take time linear in the text, or are refused."""

from __future__ import annotations

import time

import pytest

from remuda_proto.bounds import ID_BYTES
from remuda_proto.patterns import BadPattern, compiled, found


@pytest.mark.parametrize("pattern", ["(a|a)+b", "(a*)*b", "(a+)+$b", "(.*a){20}b", "(a?){900}b", "a{500}b|(a|aa)+c"])
def test_no_pattern_takes_long(pattern: str) -> None:
    began = time.process_time()
    assert not found(pattern, "a" * ID_BYTES)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "a++", "(((a{99}){99}){99}){99}", "[", "a" * 5_000, "\ud800", "(" * 2_000]
)
def test_what_is_no_pattern_is_refused_in_few_words(pattern: str) -> None:
    with pytest.raises(BadPattern) as refused:
        compiled(pattern)
    assert len(str(refused.value)) < 500
    assert not found(pattern, "a")
