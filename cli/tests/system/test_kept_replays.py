"""What people ask for on the page: replays that a process plays, and whose reports are kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from cli.tests.test_history import QUEUES
from remuda.history import versions
from remuda.history.answers import Answers
from remuda.history.kept import Replays
from remuda.history.shell import serve
from remuda_archive.holdings import holdings_of, prefix_of, segment_name
from remuda_archive.segments import encode
from remuda_archive.store import Store
from remuda_bus.memory import MemoryBus
from remuda_config import load
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.source import Row
from tests.identity import live, recorder
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a process at the lowest priority would not even start."""
    monkeypatch.setattr(versions, "NICENESS", 0)


async def read(client: AsyncClient, path: str) -> Row:
    found: Row = (await client.get(path)).json()
    return found


async def test_of_which_times_there_is_a_past_and_replays_that_are_kept(tmp_path: Path) -> None:
    """A configuration of the editor, played over the past: the report stays, for whoever reads everything."""
    bus, store = MemoryBus(), Store.open(str(tmp_path / "archive"))
    one = live.Live(load(QUEUES), 2, hours=0.3, nodes=2, apps=4)
    await one.run()
    for header, records in recorder.segments(live.RM, one.log, one.inbox):
        await store.put(segment_name(live.RM, header.since_ms, header.first, header.end.seq), encode(header, records))
    await serve(bus, Answers(store), Replays(store, clock_ms=lambda: live.NOON + 3_600_000))
    transport = ASGITransport(Application(BusSource(bus), "1", 0, "info", bus))
    async with AsyncClient(transport=transport, base_url="http://web") as client:
        path = f"/api/v1/rms/{live.RM}"
        span = (await client.get(f"{path}/past")).json()
        assert (span["first_seq"], span["since_ms"] // 60_000) == (1, live.NOON // 60_000)
        assert (await client.get("/api/v1/rms/rm-9/past")).json()["last_seq"] == 0
        assert (await client.get("/api/v1/rms/%2A/past")).json()["last_seq"] == 0
        assert (await client.get(f"{path}/replays")).json() == {"replays": []}
        wanted = {"text": QUEUES.replace("vcore: 20", "vcore: 8"), "title": "8 cores", "since": "1d"}
        begun = (await client.post(f"{path}/replays", json=wanted)).json()
        assert (begun["state"], begun["title"]) == ("running", "8 cores")
        async with asyncio.timeout(200.0 * PATIENCE):
            while (found := await read(client, f"{path}/replays/{begun['id']}"))["state"] == "running":  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert found["problem"] == "" and found["report"]["variants"][0]["change"] == "8 cores"
        waits = [run["waits"]["queue"]["root.prod"]["mean_ms"]
                 for run in (found["report"]["variants"][0], found["report"]["unchanged"])]  # fmt: skip
        assert waits[0] > waits[1] and "series" not in found["report"]["actual"]
        [row] = (await client.get(f"{path}/replays")).json()["replays"]
        assert row == {name: value for name, value in found.items() if name != "report"}
        for body, says in (
            ({"text": "partitions: 3"}, "partitions"),
            ({"text": QUEUES, "since": "soon"}, "since: time 'soon'"),
            ({"text": QUEUES, "walls": 3}, "expected only these fields"),
            ({"text": 3}, "text is 3, expected a text"),
            ({}, "text is None, expected a text"),
        ):
            answer = await client.post(f"{path}/replays", json=body)
            assert answer.status_code == 400 and says in answer.json()["detail"], answer.text
        assert (await client.get(f"{path}/replays/nothing")).status_code == 404
    held = holdings_of(live.RM, await store.names(prefix_of(live.RM)))
    assert not held.foreign, "reports are no damage of the archive"
