"""Commands about the past, as people type them, from an archive of a period that was lived through."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx import ASGITransport, AsyncClient

from cli.tests.test_mistakes import command
from remuda.access.permissions import MONITOR, ROLES, of_client, of_role, operator_imports, rm_imports
from remuda.client import past
from remuda.history.answers import Answers
from remuda.history.kept import KEPT, WAITING, Kept, Replays
from remuda.history.past import At, Past, Restored
from remuda.history.shell import serve
from remuda.history.versions import Version
from remuda_archive.holdings import replay_name, segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_config import load
from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator
from remuda_operations.queries.core import ask_past
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.callers import set_caller
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


def test_a_team_complains(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story of docs/history.md."""
    wide = QUEUES.replace("vcore: 20", "vcore: 40")
    (tmp_path / "mended.yaml").write_text(wide)
    changed_ms = live.NOON + 10 * live.MINUTE

    async def live_through() -> None:
        one = live.Live(load(wide), 2, hours=0.5, nodes=3, apps=6)
        change = inbox_pb2.Command()
        change.configure.rm_id = live.RM
        change.configure.configuration.CopyFrom(load(QUEUES.replace("vcore: 20", "vcore: 4")))
        one._send(changed_ms, change)
        await one.run()
        store = Store.open(str(tmp_path / "archive"))
        for header, records in recorder.segments(live.RM, one.log, one.inbox):
            name = segment_name(live.RM, header.since_ms, header.first, header.end.seq)
            await store.put(name, encode(header, records))

    asyncio.run(live_through())
    monkeypatch.setenv("REMUDA_ARCHIVE", str(tmp_path / "archive"))

    def told(*given: str) -> Any:
        return json.loads(run(*given, "--json")[1])

    since = told("bisect", live.RM, "queue root.prod: max.vcore < 40")
    seq = since["log_seq"]
    assert since["at_ms"] >= changed_ms > since["at_ms"] - live.MINUTE
    assert "root.prod" in since["cause"] and since["command"] == "Configure"
    explained = [run("--at", str(seq + 40), "explain", live.RM, f"app-{number}")[1] for number in range(0, 6, 2)]
    assert any("root.prod" in one for one in explained), explained
    differs = told("diff", live.RM, str(seq - 1), str(seq))
    [row] = [one for one in differs["queues"] if one["name"] == "root.prod"]
    assert "max" in row["fields"] and differs["causes"]
    report = told("replay", live.RM, f"--queues={tmp_path / 'mended.yaml'}", "--variant=--nodes +2:like=n01")
    waits = [one["waits"]["queue"]["root.prod"]["p95_ms"] for one in (report["unchanged"], *report["variants"])]
    assert waits[1] < waits[0], "the mended configuration helps"
    assert "root.batch" in report["variants"][0]["waits"]["queue"] and report["variants"][0]["differences"]["gained"]


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


def test_deciding_one_of_several_stretches_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda.history.exact.STRETCH", 10)
    whole = json.loads(run("replay", live.RM, "--exact", "--json")[1])
    third = json.loads(run("replay", live.RM, "--exact", "--every", "3", "--json")[1])
    assert third["commits"] + third["left_out"] == whole["commits"] > 2 * third["commits"]
    shown = run("replay", live.RM, "--exact", "--every", "3")[1]
    assert f"{third['left_out']:,} others not decided again" in shown


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


async def served(bus: MemoryBus, archive: Path) -> None:
    store = Store.open(str(archive))
    await serve(bus, Answers(store), Replays(store))


async def test_the_service_answers_like_the_archive(archive: Path) -> None:
    bus = MemoryBus()
    await served(bus, archive)
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
    await served(bus, archive)
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


async def test_reports_of_replays_are_bounded_and_interrupted_ones_say_so(archive: Path, tmp_path: Path) -> None:
    shutil.copytree(archive, tmp_path / "archive")
    store, now = Store.open(str(tmp_path / "archive")), live.NOON
    for number in range(KEPT):
        one = Kept(f"{number:013}-x", "old", "7d", live.NOON, state="done")
        await store.put(replay_name(live.RM, one.id), msgspec.json.encode(one))
    replays = Replays(store, version=Version("0", tmp_path / "nothing"), clock_ms=lambda: now)
    begun = [await replays.begin(live.RM, {"text": QUEUES, "since": str(live.NOON)}) for _ in range(WAITING)]
    with pytest.raises(Refused, match="waiting already"):
        await replays.begin(live.RM, {"text": QUEUES})
    rows = (await replays.rows(live.RM))["replays"]
    assert len(rows) == KEPT and {one["id"] for one in begun} <= {one["id"] for one in rows}
    now += 3 * 3_600_000
    assert (await replays.report(live.RM, {"id": begun[0]["id"]}))["problem"] == "it was interrupted"
    await replays.close()


async def test_several_readers_look_back_at_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One who looks at a moment that takes long holds up nobody; two at one moment share it."""
    answers, begun, may_go = Answers(Store.open(str(archive))), list[At](), asyncio.Event()
    restore = Past.restore

    async def slow(past: Past, at: At) -> Restored:
        begun.append(at)
        if at.seq == 90:
            await may_go.wait()
        return await restore(past, at)

    monkeypatch.setattr(Past, "restore", slow)
    long = [asyncio.create_task(answers.answer(live.RM, "stats", {"at": 90})) for _ in range(2)]
    quick = json.loads(await answers.answer(live.RM, "stats", {"at": 60}))
    assert quick["log_seq"] == 60 and not any(one.done() for one in long)
    may_go.set()
    assert [json.loads(one)["log_seq"] for one in await asyncio.gather(*long)] == [90, 90]
    assert len(begun) == 2


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


# Roles that docs/history.md lists under "Who may look back".
ASKING = {"web", "grpc", "operator"}


@pytest.mark.parametrize("kind", subjects.ALL_OF_PAST)
def test_who_may_ask_about_the_past_and_who_answers(kind: str) -> None:
    asked = subjects.past_query("rm-1", kind)
    granted = {role: of_role(role) for role in (*ROLES, MONITOR) if role not in ("admin", MONITOR)}
    assert {role for role, one in granted.items() if may(asked, one.publish)} == ASKING
    assert {role for role, one in granted.items() if may(asked, one.subscribe)} == {"history"}
    assert not any(may(asked, [there, here]) for _, there, here in rm_imports("rm-1"))
    assert any(may(asked, [there]) for there, _ in operator_imports(Operator("ann")))
    assert not may(asked, of_client().publish)


def test_a_shadow_reads_what_the_archive_reads_and_writes_nothing() -> None:
    shadow, archive = of_role("shadow"), of_role("archive")
    for stream in (subjects.LOG.name, subjects.INBOX.name, f"OBJ_{subjects.SNAPSHOTS.name}"):
        assert may(f"$JS.API.CONSUMER.CREATE.{stream}", shadow.publish)
    assert {*shadow.publish} <= {*archive.publish}
    for subject in (
        subjects.log("rm-1"), subjects.inbox("rm-1"), f"$KV.{subjects.LEASES.name}.archive",
        f"$KV.{subjects.RMS.name}.x", f"$O.{subjects.SNAPSHOTS.name}.C.x", "$JS.API.STREAM.PURGE.LOG",
        subjects.request("rm-1", "node"),
        subjects.callback("rm-1", "allocation"), subjects.event("rm-1"), subjects.past_query("rm-1", "queues"),
    ):  # fmt: skip
        assert not may(subject, shadow.publish), subject


@pytest.mark.parametrize("reads_all", [True, False])
async def test_rest_shows_the_past_as_the_rights_of_now_allow(
    archive: Path, tmp_path: Path, reads_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell of the rows of REST. The operator may submit to root.prod alone."""
    shutil.copytree(archive, tmp_path / "archive")
    bus, store, ann = MemoryBus(), Store.open(str(tmp_path / "archive")), Operator("ann", ("prod-users",))
    replays = Replays(store, version=Version("0", tmp_path / "nothing"), clock_ms=lambda: live.NOON)
    await serve(bus, Answers(store), replays)
    app = Application(BusSource(bus), "1", 0, "info", bus)
    past_page = BusSource.page

    async def page(source: BusSource, rm: str, kind: str, **arguments: object) -> dict[str, object]:
        """What a core would answer now: the queues as they are, with their access lists."""
        if "at" not in arguments:
            found = await past_page(source, rm, kind, **arguments, at="150")
            acls = {"root.prod": " prod-users", "root.batch": " batch-users", "root": ""}
            return {
                **found,
                "queues": [{**row, "submit_acl": acls[row["path"]], "admin_acl": ""} for row in found["queues"]],
            }
        return await past_page(source, rm, kind, **arguments)

    monkeypatch.setattr(BusSource, "page", page)

    async def as_ann(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, Caller(ann, reads_all=reads_all))
        await app(scope, receive, send)

    async with AsyncClient(transport=ASGITransport(as_ann), base_url="http://web") as client:
        path = f"/api/v1/rms/{live.RM}"
        rows = {kind: (await client.get(f"{path}/{kind}?at=60")).json()["rows"]
                for kind in ("queues", "applications", "nodes", "allocations", "asks", "usage")}  # fmt: skip
        queues = {row["queue"] for kind in ("applications", "asks") for row in rows[kind]}
        assert queues == ({"root.prod", "root.batch"} if reads_all else {"root.prod"})
        assert len(rows["nodes"]) == 3, "nodes are visible to everybody"
        of_batch = next(one["id"] for one in _everything(archive) if one["queue"] == "root.batch")
        status = (await client.get(f"{path}/explain?at=60&application={of_batch}")).status_code
        assert status == (200 if reads_all else 404)
        assert (await client.get(f"{path}/past")).json()["last_seq"] > 0
        expected = 200 if reads_all else 403
        assert (await client.post(f"{path}/replays", json={"text": QUEUES})).status_code == expected
        listed = await client.get(f"{path}/replays")
        assert listed.status_code == expected
        key = (await replays.rows(live.RM))["replays"][0]["id"] if reads_all else "x"
        assert (await client.get(f"{path}/replays/{key}")).status_code == expected
    await replays.close()


def _everything(archive: Path) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        answer = await Answers(Store.open(str(archive))).answer(live.RM, "applications", {"at": 60})
        found: list[dict[str, Any]] = json.loads(answer)["applications"]
        return found

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, read()).result()
