"""A shadow follows what another configuration, or another version, would have decided, in processes beside it."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.history import shadow, shadow_report, versions
from remuda.history.shadow import Following, Shadow
from remuda.history.shadow_settings import ShadowSettings
from remuda.history.versions import NoVersion, this_version, unpacked
from remuda.show.replay import shadow as show
from remuda_archive.holdings import segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_config import load
from remuda_core.core import Core
from remuda_core.shell import replay
from remuda_core.shell.machine import CoreMachine
from remuda_core.wire import schema
from remuda_replication.log import START, Chain
from tests.identity import live, recorder
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[3]
QUEUES = """
partitions:
  - name: default
    queues:
      - {name: root, submitacl: "*", queues: [{name: prod, resources: {max: {vcore: 20}}}, {name: batch}]}
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a process at the lowest priority would not even start."""
    monkeypatch.setattr(versions, "NICENESS", 0)


@pytest.fixture(scope="module")
def lived() -> live.Live:
    one = live.Live(load(QUEUES), 2, hours=0.3, nodes=2, apps=4)
    asyncio.run(one.run())
    return one


@pytest.fixture
def same(tmp_path: Path) -> Path:
    path = tmp_path / "same.yaml"
    path.write_text(QUEUES)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.yaml"
    path.write_text(QUEUES.replace("vcore: 20", "vcore: 8"))
    return path


async def archived(one: live.Live, store: Store, commits: slice = slice(None)) -> None:
    for header, records in recorder.segments(live.RM, one.log, one.inbox)[commits]:
        await store.put(segment_name(live.RM, header.since_ms, header.first, header.end.seq), encode(header, records))


async def test_it_goes_on_where_it_ended_and_its_report_says_where_it_differs(
    lived: live.Live, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorder, "COMMITS_OF_A_SEGMENT", 40)
    store, settings = Store.open(str(tmp_path / "archive")), ShadowSettings(directory=tmp_path, queues=other)
    await Shadow(live.RM, settings, this_version(), store).decide()
    assert shadow_report.read(shadow_report.path_of(tmp_path, live.RM)) is None, "nothing has happened yet"
    await archived(lived, store, slice(1))
    first = Shadow(live.RM, settings, this_version(), store)
    await first.decide()
    assert (first.report.log_seq, first.report.commits, first.report.problem) == (40, 40, "")
    await archived(lived, store)
    again = Shadow(live.RM, settings, this_version(), store)
    await again.decide()
    assert again.report.log_seq == again.report.commits == len(lived.log)
    assert again.report.different > first.report.different > 0 and again.report.by_kind["not placed"] > 0
    assert again.report.differences[0] == first.report.differences[0]
    await again.play()
    assert again.report.effect is not None and again.report.effect_seq == len(lived.log)
    [variant] = again.report.effect["variants"]
    waits = variant["waits"]["queue"]["root.prod"], again.report.effect["unchanged"]["waits"]["queue"]["root.prod"]
    assert waits[0]["mean_ms"] > waits[1]["mean_ms"]
    assert shadow_report.path_of(tmp_path, live.RM).with_suffix(".html").read_text().startswith("<!doctype html>")
    show(tmp_path, False)
    shown = capsys.readouterr().out
    assert f"{live.RM}: {other}" in shown and "not placed" in shown and "waits by queue" in shown
    other.write_text(QUEUES)
    assert Shadow(live.RM, settings, this_version(), store).report.commits == 0, "another configuration begins anew"


async def test_the_same_configuration_and_version_differ_nowhere(lived: live.Live, same: Path, tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "archive"))
    await archived(lived, store)
    for settings in (ShadowSettings(directory=tmp_path), ShadowSettings(directory=tmp_path, queues=same)):
        one = Shadow(live.RM, settings, this_version(), store)
        await one.decide()
        assert (one.report.commits, one.report.different, one.report.problem) == (len(lived.log), 0, "")


def wheel(directory: Path, version: str, changes: dict[str, tuple[str, str]]) -> Path:
    """The packages of this clone as a wheel, with other texts in some files."""
    path = directory / f"remuda_scheduler-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for room in ("proto", "bus", "replication", "operations", "sdk", "cli", "services/*", "integrations/*"):
            for file in sorted(ROOT.glob(f"{room}/remuda*/**/*.py")):
                name = str(file.relative_to(next(one for one in ROOT.glob(room) if one in file.parents)))
                text = file.read_text()
                if name in changes:
                    before, after = changes[name]
                    assert before in text
                    text = text.replace(before, after)
                archive.writestr(name, text)
        archive.writestr(
            f"remuda_scheduler-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: remuda-scheduler\nVersion: {version}\n",
        )
    return path


async def test_another_version_decides_in_processes_of_its_own(
    lived: live.Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {"remuda_core/wire/configuration.py": ('sort.type or "fair"', '"binpacking"')}
    path = wheel(tmp_path, "99.1", changed)
    store = Store.open(str(tmp_path / "archive"))
    await archived(lived, store)
    settings = ShadowSettings(directory=tmp_path, version=path)
    with unpacked(path) as version:
        assert version.name == "99.1"
        one = Shadow(live.RM, settings, version, store)
        await one.decide()
        assert one.report.problem == "" and one.report.against == "version 99.1"
        assert one.report.different > 0 and one.report.by_kind["Register"] == 1
        await one.play()
    assert one.report.effect is not None
    [variant] = one.report.effect["variants"]
    assert variant["version"] == "99.1" and variant["identity"]["different"] == one.report.different
    assert one.report.effect["identity"]["different"] == 0
    show(tmp_path, False)
    assert f"version 99.1 decides {one.report.different} of" in capsys.readouterr().out


def test_wheels_that_are_none(tmp_path: Path) -> None:
    for given in (tmp_path, tmp_path / "remuda-1.whl", tmp_path / "remuda_scheduler-1-py3-none-any.whl"):
        with pytest.raises(NoVersion), unpacked(given):
            pass


@pytest.fixture
async def bus(lived: live.Live) -> AsyncIterator[MemoryBus]:
    """A system that has a past: its log begins behind a snapshot."""
    bus = MemoryBus()
    for message in lived.log:
        await bus.append(subjects.log(live.RM), message.payload)
    for message in lived.inbox:
        await bus.append(subjects.inbox(live.RM), message.payload)
    yield bus
    await bus.close()


async def test_it_follows_the_bus_from_the_newest_snapshot_and_writes_nothing_there(
    bus: MemoryBus, lived: live.Live, other: Path, tmp_path: Path
) -> None:
    chain, core = Chain(START), Core(live.RM)
    for message in lived.log[:50]:
        if (entry := chain.accept(message)) is not None:
            replay.apply(core, schema.Commit.FromString(entry.commit.SerializeToString()))

    async def state() -> AsyncIterator[bytes]:
        for part in CoreMachine(core).save(chain.head):
            yield part

    await bus.put_object(subjects.SNAPSHOTS.name, f"{subjects.key_of(live.RM)}.50", state())
    await bus.put(subjects.RMS.name, subjects.key_of(live.RM), json.dumps({"rm_id": live.RM}).encode())
    ends = [await bus.last_sequence(one.name) for one in subjects.STREAMS]
    settings = ShadowSettings(directory=tmp_path, queues=other, interval_s=1.0, effect_s=0.0)
    following = Following(bus, settings, this_version())
    running = asyncio.create_task(following.run())
    async with asyncio.timeout(60.0 * PATIENCE):
        while (one := following.shadows.get(live.RM)) is None or one.report.log_seq < len(lived.log):
            assert not running.done(), running.exception()
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert one.report.commits == len(lived.log) - 50 and one.report.different > 0
    await following.end()
    kept = shadow_report.read(shadow_report.path_of(tmp_path, live.RM))
    assert kept is not None and kept.is_over and kept.effect is not None
    assert [await bus.last_sequence(one.name) for one in subjects.STREAMS] == ends


def test_a_shadow_that_does_not_keep_up_decides_fewer_commits_and_says_so(other: Path, tmp_path: Path) -> None:
    settings = ShadowSettings(directory=tmp_path, queues=other, interval_s=10.0)
    one = Shadow(live.RM, settings, this_version(), Store.open(str(tmp_path / "archive")))
    one.pace(11.0, 40_000)
    one.pace(11.0, 50_000)
    assert one.report.every == 4 and "one of 4 decided again" in one.status and "50 s behind" in one.status
    one.pace(2.0, 0)
    one.pace(2.0, 0)
    one.pace(2.0, 0)
    assert one.report.every == 1 and "behind" not in one.status


async def test_a_configuration_with_a_mistake_is_refused_at_the_start(bus: MemoryBus, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("partitions: [{name: default, queues: [{name: root, walls: 3}]}]")
    with pytest.raises(ValueError, match="walls"):
        await shadow.main(bus, ShadowSettings(directory=tmp_path, queues=wrong))
