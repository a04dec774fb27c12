"""The one parser of durations against its grammar, and against a second reading of the same grammar."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_proto.bounds import DURATION_CHARACTERS
from remuda_proto.durations import milliseconds

UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
MAX_NS = 2**63 - 1

digits = st.text("0123456789", min_size=1, max_size=4)
numbers = st.one_of(
    digits, digits.map(lambda d: f"{d}."), digits.map(lambda d: f".{d}"), st.builds("{}.{}".format, digits, digits)
)
parts = st.lists(st.tuples(numbers, st.sampled_from(sorted(UNITS_NS))), min_size=1, max_size=5)


@given(parts, st.sampled_from(["", "+"]))
def test_the_sum_of_the_parts(parts, sign):
    total_ns = sum(Fraction(f"0{number}0" if "." in number else number) * UNITS_NS[unit] for number, unit in parts)
    assert milliseconds(sign + "".join(number + unit for number, unit in parts)) == int(total_ns // 10**6)


@given(st.text("0123456789.+- nuµμmsh", max_size=12))
def test_any_text(text):
    assert milliseconds(text) == go(text)


def go(text: str) -> int | None:
    """Go's ParseDuration, character by character, with negative durations left out."""
    rest = text.removeprefix("+")
    if rest == "0":
        return 0
    if not rest:
        return None
    total_ns = Fraction(0)
    while rest:
        number, rest = leading(rest, "0123456789.")
        unit, rest = leading(rest, "nuµμmsh")
        if number.count(".") > 1 or not number.strip(".") or unit not in UNITS_NS:
            return None
        whole, _, fraction = number.partition(".")
        total_ns += Fraction(int(whole + fraction), 10 ** len(fraction)) * UNITS_NS[unit]
    return int(total_ns // 10**6) if total_ns <= MAX_NS else None


def leading(text: str, characters: str) -> tuple[str, str]:
    length = next((at for at, character in enumerate(text) if character not in characters), len(text))
    return text[:length], text[length:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30_000), ("1m30s", 90_000), ("1.001s", 1_001), (".5s", 500), ("1.s", 1_000), ("0", 0), ("999us", 0),
        ("2562047h47m16.854775807s", MAX_NS // 10**6), ("2562047h47m16.854775808s", None), ("-1s", None), ("", None),
        ("30", None), ("s", None), (".s", None), ("1s ", None), ("1d", None), ("1S", None),
        ("١s", None), ("1s\n", None), ("0" * DURATION_CHARACTERS + "s", None),
    ],
)  # fmt: skip
def test_examples(text, expected):
    assert milliseconds(text) == expected
