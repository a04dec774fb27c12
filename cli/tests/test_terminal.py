"""Figures as people read them, over the whole range of a quantity."""

from __future__ import annotations

import random

import pytest

from remuda.terminal.output import print_log_line
from remuda.terminal.units import duration, number, size

SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.25, "0.25"), (4, "4"), (12.5, "12.5"), (1_500, "1,500"), (9_999, "9,999"), (9_999.6, "10k"),
        (25_000, "25k"), (999_600, "1M"), (1_200_000, "1.2M"), (2**63 - 1, "9.22E"), (-(2**63), "-9.22E"),
        (2**63 / 1000, "9.22P"), (-1_500, "-1,500"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1023, "1,023"), (1024, "1Ki"), (1_048_575, "1Mi"), (512 * 2**20, "512Mi"), (1000 * 2**30, "1,000Gi"),
        (2**63 - 1, "8Ei"), (-(2**63), "-8Ei"),
    ],
)  # fmt: skip
def test_sizes(value: int, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(("ms", "text"), [(0.8, "0.8 ms"), (9.97, "10 ms"), (999.6, "1 s"), (5e6, "5,000 s")])
def test_durations(ms: float, text: str) -> None:
    assert duration(ms) == text


def test_no_exponent_and_within_half_a_percent_whatever_the_quantity() -> None:
    chance = random.Random(1)
    for _ in range(20_000):
        value = chance.getrandbits(chance.randint(1, 63)) * chance.choice((1, -1))
        for text, suffixes in ((number(value), SUFFIXES), (size(value), BINARY)):
            plain = text.replace(",", "")
            unit = next((suffix for suffix in suffixes if plain.endswith(suffix)), "")
            digits = plain.removesuffix(unit)
            assert "e" not in digits and len(text) <= 9, text
            assert abs(float(digits) * suffixes.get(unit, 1) - value) <= abs(value) * 0.006, (value, text)


def test_a_line_has_one_time(capsys: pytest.CaptureFixture[str]) -> None:
    print_log_line("core", "2026-11-23T01:00:38.535689Z [info     ] started")
    print_log_line("core", '{"event": "started"}')
    first, second = capsys.readouterr().out.splitlines()
    assert first[8:] == " core        [info     ] started"
    assert second[8:] == ' core        {"event": "started"}'
