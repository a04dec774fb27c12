"""The report of a preview fits into 80 columns and says what changes."""

from __future__ import annotations

import pytest
from rich.console import Console

from remuda.show import preview
from remuda_operations.queries.preview import Report, Rows

MAX = {"before": {"vcore": 8_000}, "after": {"vcore": 4_000, "memory": 2**30}}


def report(**changed: object) -> Report:
    queues = [
        {"partition": "default", "queue": "root.old", "change": "draining", "fields": {}},
        {"partition": "default", "queue": "root.a", "change": "changed", "fields": {"max": MAX}},
    ]
    over = {
        "partition": "default", "queue": "root.a", "kind": "user", "name": "ann", "resource": "vcore",
        "used": 6_000, "max": 4_000, "over": 2_000, "over_before": 0,
    }  # fmt: skip
    running = {**over, "kind": "queue", "name": "", "resource": "running applications", "used": 3, "max": 2, "over": 1}
    placement = {
        "application": "app-1", "user": "ann", "queue": "root.old", "before": "root.old", "after": "",
        "reason": "queue root.old is draining", "outcome": "refused",
    }  # fmt: skip
    by_queue = {
        "partition": "gpu", "queue": "root.b",
        "allocated": 12, "allocated_without": 0, "preempted": 0, "preempted_without": 1,
    }  # fmt: skip
    victim = {"application": "app-1", "key": "k1", "node": "n1", "for_application": "app-2", "for_key": "k2"}
    group = {
        "partition": "gpu", "queue": "root.b", "application": "train-7", "key": "w", "level": "rack", "waiting": 16,
        "placed": 16, "placed_without": 0, "domain": "b1/r2", "domain_without": "", "preempted": 3,
        "preempted_without": 0, "reason": "",
    }  # fmt: skip
    whole: dict[str, object] = {
        "state": "Running",
        "passes": 3,
        "queues": Rows(30, queues, {"draining": 1, "changed": 29}),
        "over_quota": Rows(2, [over, running]),
        "placements": Rows(1, [placement], looked_at=10, of=20),
        "allocations": Rows(12, [], without=0),
        "preemptions": Rows(1, [victim], without=1),
        "by_queue": Rows(1, [by_queue]),
        "groups": Rows(1, [group]),
    }
    return Report("rm-1", 7, **(whole | changed))  # type: ignore[arg-type]


def shown(monkeypatch: pytest.MonkeyPatch, found: Report) -> str:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr(preview, "console", console)
    preview.show(found, "new.yaml")
    return console.export_text()


def test_everything_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, report())
    for said in (
        "new.yaml for rm-1. Nothing was changed.",
        "queues: 1 draining, 29 changed",
        "max vcore 8 → vcore 4, memory 1Gi",
        "and 28 more; --rows shows more of them",
        "over quota: 2, 2 of the first 2 by this change",
        "user ann",
        "would place elsewhere: 1, of the first 10 of 20",
        "refused: queue root.old is draining",
        "the next 3 passes: 12 allocations (0 without the change), 1 preempted (1)",
        "gpu: root.b",
        "app-1/k1",
        "groups that wait: 1",
        "train-7/w 16 of 16 0 in b1/r2, 3 preempted for it",
    ):
        assert said in " ".join(text.split()), said
    assert max(map(len, text.splitlines())) <= 80


def test_little_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Report("rm-1", 7, state="Paused", passes=1))
    assert "rm-1, which is Paused: nothing is scheduled for it" in " ".join(text.split())
    assert "queues: no change" in text and "over quota: 0" in text


def test_what_is_refused_has_no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, Report("rm-1", 7, state="Running", refused="no")).splitlines()
    assert lines[1:] == ["rm-1 would refuse it: no"]
