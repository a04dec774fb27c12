"""`remuda explain` of one ask, on 80 columns."""

from __future__ import annotations

import time

import pytest

from remuda.show import explain
from remuda.show.wait_reasons import earlier, holders_of, in_words
from remuda.terminal.output import console
from remuda_bus.queries.rows import (
    Ask,
    Change,
    Constraint,
    EarlierConstraint,
    Explanation,
    Holder,
    Holders,
    Position,
    Step,
    WhatIf,
)

NOW_MS = 1_700_000_000_000
CPU = {"resource": "vcore", "need": 4_000, "have": 500}


def an_ask() -> Ask:
    held = Holders(7, [Holder("app-2", 6_000, 3, NOW_MS - 3_600_000), Holder("app-3", 500, 1, NOW_MS - 60_000)])
    full = Constraint("queue", "root.a", reason="full", since_ms=NOW_MS - 90_000, holders=held, **CPU)  # type: ignore[arg-type]
    kept = Constraint(
        "reserved", "n1", reason="node n1 is kept for app-9/k", holders=Holders(1, [Holder("app-9", key="k")])
    )
    history = [
        EarlierConstraint("queue", "root", "memory", NOW_MS - 600_000, NOW_MS - 300_000),
        EarlierConstraint("node", "", "", NOW_MS - 300_000, 0),
    ]
    position = Position(3, 10, [])
    return Ask("app-1", "k1", "default", "root.a", 1, NOW_MS - 600_000, [full, kept], "full", position, history)


def test_who_holds_it_and_what_was_before() -> None:
    assert list(holders_of(an_ask(), NOW_MS)) == [
        "held by app-2 vcore 6 for 1 h; app-3 vcore 0.5 for 1 min; 5 more", "held by app-9/k",
    ]  # fmt: skip
    assert list(earlier(an_ask(), NOW_MS)) == [
        "before: node for 5 min, over now", "before: queue root memory for 5 min, ended 5 min ago",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (
            Step("max", "root.a", resource="memory", before=1024**3, after=3 * 1024**3),
            "the maximum of queue root.a is raised by memory 2Gi, from 1Gi to 3Gi",
        ),
        (
            Step("limit", "root.a", who="user ann", resource="vcore", before=1_000, after=1_500),
            "the limit of user ann in queue root.a is raised by vcore 0.5, from 1 to 1.5",
        ),
        (Step("node", capacity={"vcore": 4_000}), "one more node is added, with vcore 4"),
        (Step("application", "app-2", text="application app-2 ends"), "application app-2 ends"),
    ],
)
def test_steps_in_words(step: Step, text: str) -> None:
    assert in_words(step) == text


def test_the_screen_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_MS / 1_000)
    steps = [
        Step("max", "root." + "a" * 60, resource="vcore", before=1_000, after=5_000),
        Step("connect", text="x " * 60),
    ]
    changes = WhatIf(changes=[Change(steps, exact=False), Change(steps[1:])], complete=False, trials=150)
    monkeypatch.setattr(console, "width", 80)
    with console.capture() as captured:
        explain._show_explanation("app-1 k1", explain.Result(Explanation([an_ask()]), changes=changes))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.rstrip() for line in lines[:3]] == [
        "k1",
        "  queue root.a is full: needs vcore 4, 0.5 left",
        "    held by app-2 vcore 6 for 1 h; app-3 vcore 0.5 for 1 min; 5 more",
    ]
    text = " ".join("\n".join(lines).split())
    assert "would run if the maximum of queue" in text and "or if x x" in text
    assert "given up after 150 trials" in text and "somewhat less may do" in text
    changes = WhatIf(runs=True, passes=3)
    with console.capture() as captured:
        explain._show_explanation("app-1 k1", explain.Result(Explanation([an_ask()]), changes=changes))
    assert "runs in the next 3 s without a change" in captured.get()
