"""`remuda explain` of one ask, on 80 columns."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time

import msgspec
import pytest

from remuda.show import explain
from remuda.show.wait_reasons import alike, earlier, holders_of, in_words, reasons_of, with_units
from remuda.terminal.output import console
from remuda_bus.status_codes import BUSY
from remuda_operations.queries import RequestRefused
from remuda_operations.queries import core as queries
from remuda_operations.queries.rows import (
    Change,
    Constraint,
    EarlierConstraint,
    ExplainedAsk,
    Explanation,
    Forecast,
    Forecasts,
    Holder,
    Holders,
    Position,
    Step,
    WhatIf,
)
from remuda_web.web_page import FOLDER

FORMAT = FOLDER / "format.js"
NOW_MS = 1_700_000_000_000
CPU = {"resource": "vcore", "need": 4_000, "have": 500}


def an_ask() -> ExplainedAsk:
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
    return ExplainedAsk(
        application="app-1", key="k1", partition="default", queue="root.a", pending=1, since_ms=NOW_MS - 600_000,
        constraints=[full, kept], reason="full", position=position, history=history,
    )  # fmt: skip


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


def test_an_ask_that_is_too_large_in_words() -> None:
    constraint = Constraint("too_large", "cpu-01", "vcore", 64_000, 48_000, "as the core has it")
    ask = msgspec.structs.replace(an_ask(), constraints=[constraint])
    assert reasons_of(ask) == ["too large for every node it may be on: needs vcore 64, cpu-01 can have 48"]
    assert list(holders_of(ask, NOW_MS)) == [""]


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


def like(key: str, **changed: object) -> ExplainedAsk:
    return msgspec.structs.replace(an_ask(), key=key, **changed)


def test_asks_that_wait_alike_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 80)
    asks = [an_ask(), *(like(f"k{n}") for n in range(2, 13)), like("other", priority=7), like("x", application="app-2")]
    with console.capture() as captured:
        explain._show_explanation("app-1", explain.Result(Explanation(asks)))
    said = captured.get()
    assert said.count("queue root.a is full") == 3
    text = " ".join(said.split())
    assert "k1 11 other asks of it wait alike: k2, k3, k4, k5, k6, k7, k8, k9 and 3 more queue root.a" in text
    with console.capture() as captured:
        explain._show_explanation("app-1", explain.Result(Explanation([an_ask(), like("k2")])))
    assert "1 other ask of it waits alike: k2" in captured.get()


def test_the_list_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 100)
    monkeypatch.setattr(time, "time", lambda: NOW_MS / 1_000)
    with console.capture() as captured:
        explain._show_waiting("rm", Explanation([an_ask(), like("k2", since_ms=NOW_MS - 7_200_000)]))
    heading, row = captured.get().splitlines()
    assert heading.split() == ["queue", "application", "waiting", "longest", "first", "reason"]
    assert row.split()[:5] == ["root.a", "app-1", "2", "2", "h"]


@pytest.mark.parametrize("seed", range(5))
def test_the_page_groups_them_alike(seed: int) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node (apt-get install nodejs)")
    chance = random.Random(seed)
    asks = [
        like(
            f"k{n}",
            application=chance.choice(("a", "b")),
            priority=chance.choice((0, 1)),
            resource=chance.choice(({}, {"vcore": 1}, {"vcore": 2})),
            constraints=an_ask().constraints[: chance.choice((0, 1, 2))],
        )
        for n in range(60)
    ]
    source = re.search(r"export (function alike.*?\n})", (FOLDER / "wait_bands.js").read_text(), re.DOTALL)
    assert source is not None
    rows = msgspec.json.encode(asks).decode()
    script = f"{source[1]} console.log(JSON.stringify(alike({rows}).map((one) => one.map((ask) => ask.key))));"
    found = subprocess.run([node, "--input-type=module", "-e", script], check=True, capture_output=True).stdout
    assert json.loads(found) == [[ask.key for ask in group] for group in alike(asks)]


TEXTS = [
    ("no node has {memory=68719476736 vcore=64000} available", "no node has memory 64Gi, vcore 64 available"),
    ("closest is n1: memory needs 34359738368, 0 are left", "closest is n1: memory needs 32Gi, 0 are left"),
    (
        "queue root.a: vcore needs 1500, 500 of 4000 are left, 2000 are kept for asks",
        "queue root.a: vcore needs 1.5, 0.5 of 4 are left, 2 are kept for asks",
    ),
    ("queue root.a: gpu needs 12, 8 of 16 are left", "queue root.a: gpu needs 12, 8 of 16 are left"),
    (
        "app-1/k asks for gpu=2 memory=1024 vcore=500, priority 0",
        "app-1/k asks for gpu 2, memory 1Ki, vcore 0.5, priority 0",
    ),
    ("would have memory=2048, its maximum is 1024", "would have memory 2Ki, its maximum is 1Ki"),
    ("{nvidia.com/gpu=2}", "nvidia.com/gpu 2"),
    ("killed by ann: LIMIT=5 {x} n1=", "killed by ann: LIMIT=5 {x} n1="),
]


@pytest.mark.parametrize(("text", "written"), TEXTS)
def test_amounts_in_texts_have_units(text: str, written: str) -> None:
    assert with_units(text) == written


def test_the_page_writes_them_alike() -> None:
    """But for the suffixes of bytes."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node (apt-get install nodejs)")
    texts = json.dumps([text for text, _ in TEXTS])
    script = f"import {{ withUnits }} from '{FORMAT}'; console.log(JSON.stringify({texts}.map(withUnits)));"
    run = [node, "--input-type=module", "-e", script]
    found = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    assert [re.sub(r" ([KMG]i)B", r"\1", text) for text in found] == [written for _, written in TEXTS]


MINUTE_MS = 60_000
FORECASTS = [
    (
        Forecast(
            application="app-1", key="k1", median_ms=NOW_MS + 40 * MINUTE_MS, from_ms=NOW_MS + 25 * MINUTE_MS,
            until_ms=NOW_MS + 70 * MINUTE_MS, held=405, of=500,
        ),
        "starts in 40 min (four of five times in 25 min to 1 h 10 min; 81 % of the last 500 such intervals have held)",
    ),
    (
        Forecast(application="app-1", key="k1", median_ms=NOW_MS + 51 * 3_600_000, from_ms=NOW_MS - 1),
        "starts in 2 d 3 h (four of five times in 0 s to later than was played; "
        "how often such intervals hold is not known yet)",
    ),
    (Forecast(application="app-1", key="k1"), "starts later than was played"),
    (
        Forecast(application="app-1", key="k1", unknown="no node is large enough"),
        "start unknown: no node is large enough",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("forecast", "written"), FORECASTS)
def test_an_explanation_says_when_the_ask_starts(
    monkeypatch: pytest.MonkeyPatch, forecast: Forecast, written: str
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_MS / 1_000)
    with console.capture() as captured:
        explain._show_explanation("app-1 k1", explain.Result(Explanation([like("k1", forecast=forecast)])))
    assert written in " ".join(captured.get().split())


def test_the_page_writes_forecasts_alike() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node (apt-get install nodejs)")
    rows = msgspec.json.encode([forecast for forecast, _ in FORECASTS]).decode()
    script = (
        f"import {{ starts }} from '{FORMAT}'; console.log(JSON.stringify({rows}.map((one) => starts(one, {NOW_MS}))));"
    )
    run = [node, "--input-type=module", "-e", script]
    found = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    assert found == [written for _, written in FORECASTS]


class Cores:
    """Answers that an explanation asks for. `etas`: how often forecasts were waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, forecasts: Forecasts | Exception) -> None:
        self.etas, self.forecasts = 0, forecasts
        monkeypatch.setattr(queries, "eta", self._eta)

    async def _eta(self, *_: object) -> Forecasts:
        self.etas += 1
        if isinstance(self.forecasts, Exception):
            raise self.forecasts
        return self.forecasts


async def test_forecasts_that_nobody_has_asked_for_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast = Forecast(partition="default", application="app-1", key="k1", unknown="no node is large enough")
    cores = Cores(monkeypatch, Forecasts(forecasts=[forecast]))
    found = await explain._forecast(None, "rm", "app-1", None, explain.Result(Explanation([an_ask(), like("k2")])))  # type: ignore[arg-type]
    assert [ask.forecast for ask in found.waiting] == [forecast, None]
    known = explain.Result(Explanation([like("k1", forecast=forecast)]))
    assert await explain._forecast(None, "rm", "app-1", "k1", known) is known  # type: ignore[arg-type]
    assert cores.etas == 1


async def test_an_explanation_does_without_forecasts_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    Cores(monkeypatch, RequestRefused("eta: this core plays another preview, try again", BUSY))
    found = await explain._forecast(None, "rm", "app-1", None, explain.Result(Explanation([an_ask()])))  # type: ignore[arg-type]
    with console.capture() as captured:
        explain._show_explanation("app-1", found)
    assert "no forecast of when they start: eta: this core plays another preview, try again" in captured.get()
