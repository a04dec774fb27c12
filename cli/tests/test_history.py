"""Commands about the past, as people type them, from an archive of a period that was lived through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from cli.tests.test_mistakes import command
from remuda.access.permissions import SERVICES, of_role, operator_imports, rm_imports
from remuda.client import past
from remuda.history.answers import Answers
from remuda.history.shell import serve
from remuda_archive.holdings import segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_config import load
from remuda_operations.operators import Operator
from remuda_operations.queries.core import ask_past
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from tests.identity import live, recorder

QUEUES = """
partitions:
  - name: default
    queues:
      - {name: root, submitacl: "*", queues: [{name: prod, resources: {max: {vcore: 20}}}, {name: batch}]}
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archive")

    async def write() -> None:
        one = live.Live(load(QUEUES), 2, hours=0.5, nodes=3, apps=6)
        await one.run()
        store = Store.open(str(directory))
        for header, records in recorder.segments(live.RM, one.log, one.inbox):
            await store.put(
                segment_name(live.RM, header.since_ms, header.first, header.end.seq), encode(header, records)
            )

    asyncio.run(write())
    return directory


@pytest.fixture
def run(archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("REMUDA_ARCHIVE", str(archive))
    monkeypatch.setattr(past, "_selected", None)
    return lambda *given: command(monkeypatch, capsys, *given)


@pytest.mark.parametrize("name", past.COMMANDS)
def test_what_there_was_then(run: Run, name: str) -> None:
    code, out, err = run("--at", "60", name, live.RM, "--json")
    assert (code, err) == (0, "")
    assert out.strip() not in ("", "[]", "{}")
    assert run("--at", "60", name, "--json")[1] == out, "the only RM of the archive may be left out"
    assert run("--at", "60", name, live.RM)[0] == 0


def test_two_moments_differ(run: Run) -> None:
    _, early, _ = run("--at", "3", "nodes", live.RM, "--json")
    _, late, _ = run("--at", "90", "nodes", live.RM, "--json")
    assert [row["id"] for row in json.loads(late)] == ["n00", "n01", "n02"]
    assert early != late


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--at", "60", "status"], "only of queues, applications"),
        (["--at", "soon", "queues", "rm-live"], "--at: time 'soon': expected the sequence"),
        (["--at", "999999", "queues", "rm-live"], "the archive has those from 1 up to"),
        (["--at", "2001-01-01", "queues", "rm-live"], "begins at 2027-01-15T08 o'clock"),
        (["--at", "60", "queues", "rm-9"], "has no log of 'rm-9'"),
        (["--at", "60", "explain", "rm-live", "nobody"], "application 'nobody' does not exist"),
        (["diff", "rm-live", "90", "60"], "name the earlier one first"),
        (["bisect", "rm-live", "queue root.prod"], "expected SUBJECT: FIELD OPERATOR VALUE"),
        (["bisect", "rm-live", "node n00: allocations > 1M"], "it holds after none of"),
        (["replay", "rm-live", "--nodes", "20"], "expected +COUNT:RESOURCE=AMOUNT"),
        (["replay", "rm-live", "--node-sort", "best"], "expected fair or binpacking"),
        (["replay", "rm-live", "--on-preemption", "cry"], "expected requeue or lose"),
        (["replay", "rm-live", "--goal", "wait.p95 < 5m"], "--goal goes with one variant"),
        (["replay", "rm-live", "--variant", "--walls 3"], "expected --version, --queues, --quota, --nodes"),
        (["replay", "rm-live", "--without", "alice"], "expected user:NAME"),
        (["replay", "rm-live", "--quota", "root.prod:most.vcore=4"], "expected QUEUE:max.RESOURCE=AMOUNT"),
        (["replay", "rm-live", "--quota", "root.prod:max.vcore=?"], "expected QUEUE:max.RESOURCE=AMOUNT"),
        (["replay", "rm-live", "--quota", "root.x:max.vcore=4"], "there is no queue 'root.x'"),
        (["replay", "rm-live", "--version", "/tmp"], "expected one wheel remuda_scheduler-VERSION"),
        (["replay", "rm-live", "--exact", "--arrivals", "x2"], "--exact goes with --queues and --version"),
    ],
)
def test_mistakes(run: Run, given: list[str], says: str) -> None:
    code, out, err = run(*given)
    assert code in (1, 2) and says in err, (out, err)


def test_without_an_archive(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMUDA_ARCHIVE")
    assert "REMUDA_ARCHIVE" in run("diff", live.RM, "60")[2]


def test_what_changed_and_who_did_it(run: Run) -> None:
    found = json.loads(run("diff", live.RM, "1", "90", "--json")[1])
    assert {row["name"] for row in found["nodes"]} == {"n00", "n01", "n02"}
    assert found["log_seqs"] == [1, 90]
    assert any(row["name"] == "root.prod" and "allocated" in row["fields"] for row in found["queues"])
    shown = run("diff", live.RM, "1", "90")[1]
    assert "added" in shown and "root.prod" in shown


def test_the_first_commit_after_which_it_holds(run: Run) -> None:
    text = "queue root.prod: allocated.vcore > 4"
    found = json.loads(run("bisect", live.RM, text, "--json")[1])
    seq = found["log_seq"]
    assert "allocated on n" in found["cause"] and found["command"] == "Schedule"
    before, after = (_used(run("--at", str(one), "queues", live.RM, "--json")[1]) for one in (seq - 1, seq))
    assert before <= 4_000 < after
    assert json.loads(run("bisect", live.RM, text, "--since", str(seq), "--json")[1])["holds_at_begin"]


def _used(text: str) -> int:
    root = json.loads(text)["partitions"][0]["queues"]
    return int(next(one for one in root["children"] if one["path"] == "root.prod")["allocated"].get("vcore", 0))


def test_a_replay_in_three_forms(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    given = ("replay", live.RM, "--nodes", "+2:like=n00", "--variant", "--without user:alice", "--html", str(page))
    code, shown, err = run(*given)
    assert (code, err) == (0, "")
    assert "decided again exactly: 0 of" in shown and "--nodes +2:like=n00" in shown
    report = json.loads(run(*given, "--json")[1])
    assert [one["change"] for one in report["variants"]] == ["--nodes +2:like=n00", "--without user:alice"]
    assert page.read_text().startswith("<!doctype html>")


def test_deciding_again(run: Run) -> None:
    code, out, _ = run("replay", live.RM, "--exact", "--json")
    assert code == 0 and json.loads(out)["different"] == 0


def test_deciding_again_with_the_same_and_with_another_configuration(run: Run, tmp_path: Path) -> None:
    same, other = tmp_path / "same.yaml", tmp_path / "other.yaml"
    same.write_text(QUEUES)
    other.write_text(QUEUES.replace("vcore: 20", "vcore: 8"))
    given = ("replay", live.RM, "--exact", "--until", "50", "--queues")
    code, out, _ = run(*given, str(same), "--json")
    found = json.loads(out)
    assert (code, found["different"]) == (0, 0) and found["looked"] == found["commits"] - 1 == 49
    code, out, _ = run(*given, str(other), "--json")
    found = json.loads(out)
    assert code == 1 and found["by_kind"]["not placed"] > 0
    assert found["differences"][0]["text"].startswith(f"commit {found['differences'][0]['log_seq']}, ")
    half = json.loads(run(*given, str(other), "--every", "2", "--json")[1])
    assert half["commits"] == found["commits"] and half["looked"] < found["looked"]
    shown = run(*given, str(other))[1]
    assert "not placed" in shown and "in force, otherwise nothing" in shown


async def test_the_service_answers_like_the_archive(archive: Path) -> None:
    bus = MemoryBus()
    await serve(bus, Answers(Store.open(str(archive))))
    found = await ask_past(bus, "nodes", dict, rm=live.RM, at=60)
    assert [row["id"] for row in found["nodes"]] == ["n00", "n01", "n02"] and found["log_seq"] == 60
    by_time = await ask_past(bus, "stats", dict, rm=live.RM, at="2027-01-15T08:05:00Z")
    assert by_time["at_ms"] <= live.NOON + 5 * live.MINUTE
    for request, says in (
        (b'{"at": 60, "min_log_seq": 3}', "expected only these fields"),
        (b'{"at": true}', "expected a time"),
        (b"{}", "expected a time"),
        (b"[]", "expected a JSON object"),
        (b'{"at": "soon"}', "expected the sequence"),
    ):
        with pytest.raises(Refused, match=says):
            await bus.request(subjects.past_query(live.RM, "stats"), request)


async def test_rest_asks_the_same_service(archive: Path) -> None:
    """Of an RM that is registered no more, too."""
    bus = MemoryBus()
    await serve(bus, Answers(Store.open(str(archive))))
    transport = ASGITransport(Application(BusSource(bus), "1", 0, "info", bus))
    async with AsyncClient(transport=transport, base_url="http://web") as client:
        path = f"/api/v1/rms/{live.RM}"
        first = (await client.get(f"{path}/nodes?at=60&limit=2")).json()
        assert [row["id"] for row in first["rows"]] == ["n00", "n01"] and first["log_seq"] == 60
        rest = (await client.get(f"{path}/nodes?at=60&after={first['next']}")).json()
        assert [row["id"] for row in rest["rows"]] == ["n02"] and rest["log_seq"] == 60
        assert (await client.get(f"{path}/stats?at=60")).json()["nodes"] == 3
        for asked, status in (
            (f"{path}/nodes?at=soon", 400),
            (f"{path}/nodes?at=999999", 404),
            (f"{path}/nodes", 404),
            ("/api/v1/rms/rm-9/nodes?at=60", 404),
            ("/api/v1/rms/%2A/nodes?at=60", 404),
            ("/api/v1/rms/a.b/nodes?at=60", 404),
        ):
            assert (await client.get(asked)).status_code == status, asked


def may(subject: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns of NATS covers the subject."""
    words = subject.split(".")

    def covers(pattern: list[str]) -> bool:
        for number, word in enumerate(pattern):
            if word == ">":
                return len(words) > number
            if number >= len(words) or word not in ("*", words[number]):
                return False
        return len(pattern) == len(words)

    return any(covers(pattern.split(".")) for pattern in patterns)


def test_who_may_ask_about_the_past_and_who_answers() -> None:
    asked = subjects.past_query("rm-1", "queues")
    granted = {role: of_role(role) for role in (*SERVICES, "operator")}
    assert {role for role, one in granted.items() if may(asked, one.publish)} == {"web", "grpc", "operator"}
    answering = {role for role, one in granted.items() if may(asked, one.subscribe)}
    assert answering == {"history"}
    assert not any(may(asked, [there, here]) for _, there, here in rm_imports("rm-1"))
    assert any(may(asked, [there]) for there, _ in operator_imports(Operator("ann")))
