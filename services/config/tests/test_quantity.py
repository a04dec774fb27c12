from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_proto import quantities


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("memory", "0", 0),
        ("memory", "010", 10),
        ("memory", "1k", 1000),
        ("memory", "10 G", 10 * 10**9),
        ("memory", "1Ki", 1024),
        ("memory", "7Ei", 7 * 2**60),
        ("memory", "9223372036854775807", 2**63 - 1),
        ("vcore", "10", 10_000),
        ("vcore", " 5", 5_000),
        ("vcore", "500m", 500),
        ("vcore", "5\tm", 5),
        ("vcore", "1Ki", 1_024_000),
        ("vcore", "9P", 9 * 10**18),
        ("nvidia.com/gpu", "4", 4),
    ],
)
def test_parses(resource, text, amount):
    assert quantities.parse_amount(resource, text) == amount


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        *[("memory", text) for text in ["", "-1", "+1", "1.5", "1e9", "1_000", "5 0", "0b11", "1K", "1ki", "1g", "1i"]],
        *[
            ("memory", text)
            for text in ["1B", ".inf", "ten", "500m", "1mi", "8Ei", "9223372036854775808", "١", "1\u00a0G"]
        ],
        *[("vcore", text) for text in ["0.5", "1.5m", "1mi", "1e3", "10P", "9223372036854776", "9223372036854775808m"]],
        ("VCORE", "500m"),
        ("cpu", "500m"),
    ],
)
def test_refuses(resource, text):
    with pytest.raises(ValueError, match="quantity|suffix|too large"):
        quantities.parse_amount(resource, text)


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    [
        ("memory", 10 * 10**9, "10G"),
        ("memory", 2**30, "1Gi"),
        ("memory", 1536, "1536"),
        ("memory", 0, "0"),
        ("vcore", 500, "500m"),
        ("vcore", 10_000, "10"),
    ],
)
def test_shows(resource, amount, shown):
    assert quantities.show_amount(resource, amount) == shown


def test_thousandths_of_another_resource_than_vcore():
    with pytest.raises(ValueError, match="Ei, and m of vcore alone$"):
        quantities.parse_amount("gpu", "500m")


@given(st.sampled_from(["vcore", "memory"]), st.integers(0, 2**63 - 1))
def test_what_is_shown_reads_back(resource, amount):
    assert quantities.parse_amount(resource, quantities.show_amount(resource, amount)) == amount
