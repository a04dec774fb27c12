"""The core that leads and cores that are behind; how long an ask waits, and where."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from remuda.show.status import cores_table
from remuda.show.wait_reasons import position_of, waiting_time
from remuda_operations.queries.cores import Core, RmOfCore, behind_s
from remuda_operations.queries.rows import Constraint, ExplainedAsk, Position, Turn

pytestmark = pytest.mark.timeout(120)


def test_who_leads_and_who_is_behind() -> None:
    one = Core("one", [RmOfCore("b", True, 9, 5_000), RmOfCore("a", True, 7, 9_000), RmOfCore("c", False, 3, 1_000)])
    two = Core("two", [RmOfCore("a", False, 7, 9_000), RmOfCore("b", False, 8, 2_500)])
    dead = Core("dead", error="nobody listens")
    assert behind_s([one, two, dead]) == {("two", "b"): 2.5}
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(cores_table([one, two, dead]))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert lines[1:] == [
        ["one", "a,", "b", "c"],
        ["two", "-", "a,", "b", "(2", "s", "behind)"],
        ["dead", "does", "not", "answer"],
    ]


def test_how_long_and_where_in_words() -> None:
    turns = [Turn("root.a", 2, 3), Turn("root.a.b", 1, 1), Turn("root.a.b.c", 11, 12)]
    ask = ExplainedAsk(
        application="app", key="k", queue="root.a.b.c", since_ms=1_000, position=Position(1_500, 12_000, turns)
    )
    assert waiting_time(ask, 61_000) == "pending for 1 min"
    assert (
        position_of(ask) == "1,500 of 12k are ahead of it in root.a.b.c; root.a is 2nd of 3; root.a.b.c is 11th of 12"
    )
    ask.constraints = [Constraint("queue", since_ms=31_000)]
    assert waiting_time(ask, 7_261_000) == "pending for 2 h, for this reason for 2 h"
    ask.constraints, ask.position = [], None
    assert waiting_time(ask, 500) == "pending for 0 s"
    assert position_of(ask) == "position unknown"
