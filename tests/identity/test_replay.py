"""What would have been is what is, where both can be had: a period is lived twice, with two configurations. A replay of
the one with the configuration of the other is compared with what that really gave."""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remuda.history import exact, page
from remuda.history.changes import (
    AddedNodes,
    Change,
    Quota,
    arrivals_of,
    events_with,
    nodes_of,
    quota_of,
    without_of,
)
from remuda.history.goal import Goal, goal_of, smallest
from remuda.history.past import At, Past
from remuda.history.replay import UNCHANGED, Period, Refused, period_of, replay, search
from remuda.history.world import LOSE, REQUEUE, World
from remuda_archive.holdings import segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_config import load
from remuda_core import commands
from remuda_core.settings import Configuration
from remuda_core.trials.play import copy_of
from remuda_core.wire.configuration import read_configuration
from tests.identity import live, recorder

QUEUES = """
partitions:
  - name: default
    preemption: {{enabled: true}}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            resources: {{guaranteed: {{vcore: {0}}}, max: {{vcore: {1}}}}}
            properties: {{preemption.delay: 30s}}
          - {{name: batch, resources: {{guaranteed: {{vcore: {2}}}, max: {{vcore: {3}}}}}}}
"""
A, B = QUEUES.format(20, 30, 4, 60), QUEUES.format(40, 60, 4, 30)
HOURS, NODES, APPS = 1.0, 4, 6
SEEDS = range(int(os.environ.get("SEEDS", "3")))  # ten in the suite "identity of archives"


@cache
def lived(text: str, seed: int) -> live.Live:
    one = live.Live(load(text), seed, HOURS, NODES, APPS)
    asyncio.run(one.run())
    return one


async def past_of(one: live.Live, directory: Path) -> Past:
    store = Store.open(str(directory))
    for header, records in recorder.segments(live.RM, one.log, one.inbox):
        await store.put(segment_name(live.RM, header.since_ms, header.first, header.end.seq), encode(header, records))
    return await Past.open(store, live.RM)


@pytest.fixture(scope="module", params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


async def period(one: live.Live, directory: Path, end_ms: int, on_preemption: str | None = None) -> Period:
    past = await past_of(one, directory)
    return await period_of(past, None, At(ms=end_ms), on_preemption, lambda *_: None)


def configuration(text: str) -> Configuration:
    return read_configuration(load(text))


def nothing(*_: object) -> None:
    pass


def lives(seed: int) -> tuple[live.Live, live.Live]:
    """With A and with B. Each lives in a loop of its own."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lived, A, seed).result(), pool.submit(lived, B, seed).result()


async def test_a_replay_with_b_is_what_b_really_gave(seed: int, tmp_path: Path) -> None:
    with_a, with_b = lives(seed)
    end_ms = with_a.end_ms
    of_a = await period(with_a, tmp_path / "a", end_ms)
    of_b = await period(with_b, tmp_path / "b", end_ms)
    assert of_a.compared.different == of_b.compared.different == 0
    report = await replay(of_a, [Change("B", queues=configuration(B))], nothing)
    assert report["identity"]["distance"] == 0
    # Unchanged, it is what happened. A leader that is slow takes fewer messages into a commit, a millisecond apart.
    assert report["model"]["error"]["p95_ms"] <= 100
    assert all(share < 0.001 for share in report["model"]["error"]["use"].values())
    really, played = of_b.actual, report["variants"][0]
    differs = [really["waits"]["queue"][name]["p95_ms"] != of_a.actual["waits"]["queue"][name]["p95_ms"]
               for name in live.QUEUES]  # fmt: skip
    assert any(differs), "the two configurations have to differ in something"
    for name in live.QUEUES:
        for measure in ("p50_ms", "p95_ms"):
            one, other = really["waits"]["queue"][name][measure], played["waits"]["queue"][name][measure]
            assert abs(one - other) <= max(0.05 * one, 1_000), (name, measure, one, other)
    for resource, use in really["use"].items():
        assert abs(use["mean"] - played["use"][resource]["mean"]) <= 0.01 * use["mean"], (resource, use, played["use"])


async def test_an_rm_that_registers_again_and_reports_all_is_no_other_world(tmp_path: Path) -> None:
    """What it repeats has not arrived twice, and what it reports runs on."""
    one = live.Live(load(A), 0, HOURS, NODES, APPS, restarts=True)
    await one.run()
    found = await period(one, tmp_path, one.end_ms)
    report = await replay(found, [], nothing)
    assert found.compared.different == 0
    assert report["model"]["censored"] == 0
    waits, played = (run["waits"]["all"][""] for run in (report["actual"], report["unchanged"]))
    assert played["count"] >= waits["count"] and not played["still_waiting"]
    for resource, use in report["actual"]["use"].items():
        assert abs(use["mean"] - report["unchanged"]["use"][resource]["mean"]) <= 0.01 * use["mean"]


async def test_what_is_remembered_ends_with_its_application(tmp_path: Path) -> None:
    """So memory follows from what is alive, and not from the length of the period."""
    with_a, _ = lives(0)
    found = await period(with_a, tmp_path / "a", with_a.end_ms)
    world = World(copy_of(found.start), found.workload, events_with(UNCHANGED, found.start, found.workload))
    most = 0
    for _ in world.moments():
        alive = {
            (partition.name, application.id, key)
            for partition in world._core.state.partitions.values()
            for application in partition.applications.values()
            for key in (
                *application.asks, *(one.fact.allocation_key for one in application.allocations.values()),
            )
        }  # fmt: skip
        remembered = {(*name, key) for name, works in world._works.items() for key in works}
        most = max(most, len(remembered))
        waiting = {
            (command.ask.partition, command.ask.application_id, command.ask.allocation_key)
            for _, _, command in world._later
            if isinstance(command, commands.SubmitAsk)
        }
        assert remembered <= alive | waiting
    assert most > 0


async def test_preempted_work_is_asked_for_again_or_lost(tmp_path: Path) -> None:
    """As the RM did in the period, unless it is said otherwise."""
    _, with_b = lives(0)
    found = await period(with_b, tmp_path / "b", with_b.end_ms)
    workload = found.workload
    assert workload.preempted == workload.asked_again == found.actual["preemptions"]["count"] == 4
    assert found.on_preemption == REQUEUE
    again = (await replay(found, [], nothing))["unchanged"]
    lost = (await replay(await period(with_b, tmp_path / "b", with_b.end_ms, LOSE), [], nothing))["unchanged"]
    assert again["preemptions"]["count"] == 4 and again["preemptions"]["lost_amount_hours"]["vcore"] > 0
    assert _asks(again) == _asks(lost) + 4 == _asks(found.actual)


@pytest.fixture
async def of_a(tmp_path: Path) -> Period:
    with_a, _ = lives(0)
    return await period(with_a, tmp_path / "a", with_a.end_ms)


async def test_the_same_replay_gives_the_same_report_and_no_change_is_none(of_a: Period) -> None:
    none = Change("none", added=(AddedNodes(0, like="n00"),), queues=None)
    first = await replay(of_a, [none, Change("again", arrivals=arrivals_of("x1"))], nothing)
    again = await replay(of_a, [none, Change("again", arrivals=arrivals_of("x1"))], nothing)
    assert json.dumps(first) == json.dumps(again)
    unchanged = {name: value for name, value in first["unchanged"].items() if name != "model"}
    for variant in first["variants"]:
        assert {name: variant[name] for name in unchanged} == unchanged
        assert variant["differences"] == {"gained": [], "lost": []}


async def test_more_and_fewer_nodes_users_and_asks(of_a: Period) -> None:
    changes = [
        Change("more", added=(nodes_of("+4:vcore=16,memory=64Gi"),)),  # type: ignore[arg-type]
        Change("fewer", removed=("n03",)),
        Change("without alice", without=(without_of("user:alice"),)),
        Change("without prod", without=(without_of("queue:root.prod"),)),
        Change("half", arrivals=arrivals_of("x0.5")),
        Change("twice", arrivals=arrivals_of("x2")),
    ]
    report = await replay(of_a, changes, nothing)
    runs = {one["change"]: one for one in report["variants"]}
    whole = report["unchanged"]
    assert runs["more"]["use"]["vcore"]["capacity"] == pytest.approx(2 * whole["use"]["vcore"]["capacity"], rel=0.01)
    assert runs["fewer"]["use"]["vcore"]["capacity"] == pytest.approx(
        0.75 * whole["use"]["vcore"]["capacity"], rel=0.01
    )
    assert {*whole["waits"]["user"]} - {*runs["without alice"]["waits"]["user"]} == {"alice"}
    assert "root.prod" not in runs["without prod"]["waits"]["queue"]
    counts = {name: _asks(run) for name, run in runs.items()}
    assert counts["twice"] == 2 * _asks(whole) + runs["twice"]["preemptions"]["count"]
    assert 0.35 * _asks(whole) < counts["half"] < 0.65 * _asks(whole)
    text = page.page(report)
    assert text.count("<svg") > 4 and "without alice" in text and "src=" not in text and "href=" not in text


def _asks(run: dict[str, Any]) -> int:
    row = run["waits"]["all"][""]
    return row["count"] + row["still_waiting"]


async def test_a_goal_finds_the_smallest_number_of_nodes(of_a: Period) -> None:
    """As trying every number does."""
    goal = goal_of("wait.p95 < 3m")
    change = Change("+?", queues=configuration(QUEUES.format(20, 400, 4, 400)), added=(nodes_of("+?:like=n00"),))  # type: ignore[arg-type]
    found = (await search(of_a, change, goal, 8, nothing))["goal"]
    every = await replay(of_a, [change.with_count(count) for count in range(7)], nothing)
    reached = [goal.reached(run) for run in every["variants"]]
    assert found["count"] is not None and found["count"] > 0
    assert reached.index(True) == found["count"] or found["contradicts"]


async def test_a_goal_finds_the_smallest_maximum(of_a: Period) -> None:
    """As trying every amount does."""
    goal = goal_of("wait.p95[root.prod] < 10m")
    change = Change("root.prod:max.vcore=+?", quotas=(quota_of("root.prod:max.vcore=+?*2"),))
    found = (await search(of_a, change, goal, 16, nothing))["goal"]
    every = await replay(of_a, [change.with_count(count) for count in range(12)], nothing)
    reached = [goal.reached(run) for run in every["variants"]]
    assert found["count"] is not None and found["count"] > 0
    assert reached.index(True) == found["count"] or found["contradicts"]
    written = A.replace("max: {vcore: 30}", f"max: {{vcore: {30 + 2 * found['count']}}}")
    with_file = await replay(of_a, [Change("file", queues=configuration(written))], nothing)
    as_searched = every["variants"][found["count"]]
    assert with_file["variants"][0]["waits"] == as_searched["waits"]


async def test_only_some_stretches_are_decided_again_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "STRETCH", 20)
    with_a, _ = lives(0)
    past = await past_of(with_a, tmp_path / "a")
    commits = len([one async for begin, end in past.stretches() async for one in past.steps(begin, end)])
    others = sum(number // 20 % 2 for number in range(commits))
    reports = [await replay(await period_of(past, None, At(), None, nothing, every), [], nothing) for every in (1, 2)]
    all_of_them, half = (one.pop("identity") for one in reports)
    assert "left_out" not in all_of_them and half["left_out"] == others > 40
    assert {**all_of_them, "commits": commits - others, "left_out": others} == half, "none of the others differs"
    assert reports[0] == reports[1]
    said = page.decided_again(half)
    assert said == f"0 of {commits - others:,} commits differ; {others:,} others were not decided again"


async def test_a_quota_of_what_is_there_at_the_beginning(tmp_path: Path) -> None:
    """The state at the beginning has no configuration, only queues."""
    with_a, _ = lives(0)
    past = await past_of(with_a, tmp_path / "a")
    of_a = await period_of(past, At(seq=40), At(ms=with_a.end_ms), None, lambda *_: None, every=0)
    raised = Change("raised", quotas=(quota_of("root.prod:max.vcore=60"), quota_of("root.prod:guaranteed.vcore=+20")))
    report = await replay(of_a, [raised, Change("same", quotas=(quota_of("root.prod:max.vcore=-0"),))], nothing)
    unchanged, (more, same) = report["unchanged"], report["variants"]
    assert more["waits"]["queue"]["root.prod"]["p95_ms"] < unchanged["waits"]["queue"]["root.prod"]["p95_ms"]
    assert same["waits"] == unchanged["waits"]
    with pytest.raises(Refused, match=r"root.batch has no maximum of memory"):
        await replay(of_a, [Change("x", quotas=(quota_of("root.batch:max.memory=+1Gi"),))], nothing)


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("root.Prod:max.vcore=60", Quota("root.prod", "max", "vcore", 0, 60_000)),
        ("root.a:guaranteed.memory=+10Gi", Quota("root.a", "guaranteed", "memory", 1, 10 * 2**30)),
        ("root.a:max.gpu=-2", Quota("root.a", "max", "gpu", -1, 2)),
        ("root.a:max.memory=+?", Quota("root.a", "max", "memory", 1, 2**30, None)),
        ("root.a:max.vcore=+?*4", Quota("root.a", "max", "vcore", 1, 4_000, None)),
    ],
)
def test_quotas(text: str, quota: Quota) -> None:
    assert quota_of(text) == quota


async def test_what_does_not_exist_is_refused(of_a: Period) -> None:
    with pytest.raises(Refused, match="partition 'gpu'"):
        await replay(of_a, [Change("x", added=(AddedNodes(1, (("vcore", 1),), partition="gpu"),))], nothing)


async def test_halving_names_what_contradicts_it() -> None:
    async def reached(counts: object) -> list[bool]:
        return [count in (5, 6, 8) for count in counts]  # type: ignore[attr-defined]

    found = await smallest(reached, 100)
    assert (found.count, found.contradicts) == (5, (7,))

    async def never(counts: object) -> list[bool]:
        return [False for _ in counts]  # type: ignore[attr-defined]

    assert (await smallest(never, 100)).count is None


@pytest.mark.parametrize(
    ("text", "of", "what", "kind", "name", "sign", "limit"),
    [
        ("wait.p95[root.prod] < 5m", "wait", "p95_ms", "queue", "root.prod", "<", 300_000),
        ("wait.p50<30s", "wait", "p50_ms", "all", "", "<", 30_000),
        ("wait.still[user:eve] <= 3", "wait", "still_waiting", "user", "eve", "<=", 3),
        ("use.vcore > 62.5%", "use", "vcore", "all", "", ">", 0.625),
        ("preemptions < 10", "preemptions", "", "all", "", "<", 10),
    ],
)
def test_goals(text: str, of: str, what: str, kind: str, name: str, sign: str, limit: float) -> None:
    assert goal_of(text) == Goal(text, of, what, kind, name, sign, limit)


@pytest.mark.parametrize("text", ["", "wait < 5m", "wait.p95 < soon", "wait.p42 < 5m", "use.vcore > 5", "use > 5%"])
def test_goals_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        goal_of(text)


@pytest.mark.parametrize(
    "text", ["20:vcore=4", "+x:vcore=4", "+2:", "+2:vcore", "+2:vcore=many", "+2:like=n1,vcore=4", "-"]
)
def test_nodes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        nodes_of(text)


@pytest.mark.parametrize("text", ["", "x0", "x-1", "x1e9", "many", "xnan"])
def test_arrivals_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        arrivals_of(text)
