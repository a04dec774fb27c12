"""Fields of queries: a service answers what was asked, or refuses."""

from __future__ import annotations

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_operations.queries.fields import OF_CORE, expect_fields


def test_every_query_of_the_core_has_its_fields() -> None:
    assert OF_CORE.keys() == {*subjects.CORE_QUERIES, *subjects.PLAYED_QUERIES, subjects.GUESTS}


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    expect_fields({"application": "a", "limit": 1, "rm": "rm-1"}, OF_CORE["applications"])
    with pytest.raises(Refused) as refused:
        expect_fields({"application": "a", "user": "nobody"}, OF_CORE["applications"])
    assert refused.value.reason == (
        "user is 'nobody', expected only these fields: application, queue, limit, after, min_log_seq, rm"
    )
    with pytest.raises(Refused, match="^node is 'x', expected only these fields: limit, after, min_log_seq, rm$"):
        expect_fields({"node": "x"}, OF_CORE["nodes"])


def test_names_of_fields_come_from_anywhere() -> None:
    with pytest.raises(Refused) as refused:
        expect_fields({"\x1b[2J" * 1_000: "x" * 1_000}, OF_CORE["nodes"])
    assert refused.value.reason.isprintable()
    assert len(refused.value.reason) < 400
