"""Histories of queues: both grids, the bound, queues that come and go."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator
from remuda_web import limits
from remuda_web.app import Application
from remuda_web.callers import set_caller
from remuda_web.overview import Rates
from remuda_web.queue_history import DeviceHistory, QueueHistory, sample_devices, sample_queues
from remuda_web.source import Row, Unreadable

EVERY = limits.HISTORY_EVERY_MS


def queue(path: str, allocated: dict[str, int], **more: Any) -> Row:
    return {
        "partition": "default", "path": path, "allocated": allocated, "pending": {}, "guaranteed": {},
        "max_in_force": {}, "running_applications": 1, "submit_acl": "", "admin_acl": "", **more,
    }  # fmt: skip


def test_an_hour_is_kept_closely_and_a_day_coarsely() -> None:
    history = QueueHistory()
    samples = 24 * 3_600_000 // EVERY + 500
    for number in range(samples):
        history.add("rm-1", [queue("root", {"vcore": number}, max_in_force={"vcore": 9})], number * EVERY)
    found = history.of("rm-1", "default", "root")
    times, values = found["times"], found["resources"]["vcore"]["allocated"]
    assert found["kept"] and times[-1] == (samples - 1) * EVERY and times == sorted(set(times))
    assert [time // EVERY for time in times] == values and len(found["running"]) == len(times)
    assert set(found["resources"]["vcore"]) == {"allocated", "max"}
    fine = times[-limits.HISTORY_SAMPLES :]
    assert fine[-1] - fine[0] == 3_600_000 - EVERY and {b - a for a, b in pairwise(fine)} == {EVERY}
    assert 22 * 3_600_000 < times[-1] - times[0] <= 24 * 3_600_000


def test_an_amount_has_gaps_where_there_was_none() -> None:
    history = QueueHistory()
    given: list[dict[str, int]] = [{"gpu": 3}, {"vcore": 1}, {"vcore": 2, "gpu": 4}]
    for number, allocated in enumerate(given):
        history.add("rm-1", [queue("root", allocated)], number * EVERY)
        history.add("rm-1", [queue("root", {"vcore": 77})], number * EVERY + 1)  # too soon
    resources = history.of("rm-1", "default", "root")["resources"]
    assert resources == {"vcore": {"allocated": [None, 1, 2]}, "gpu": {"allocated": [3, None, 4]}}
    for number in range(3, limits.HISTORY_SAMPLES + 3):
        history.add("rm-1", [queue("root", {"vcore": 1})], number * EVERY)
    assert set(history.of("rm-1", "default", "root")["resources"]) == {"vcore", "gpu"}, "the day still has it"


def test_queues_near_root_are_kept_while_there_is_room() -> None:
    history = QueueHistory(most_series=3)
    both = {"vcore": 1, "memory": 1}
    history.add("rm-1", [queue("root.a.b", both), queue("root", both), queue("root.c", {"vcore": 1})], 0)
    kept = [history.of("rm-1", "default", path)["kept"] for path in ("root", "root.c", "root.a.b")]
    assert kept == [True, True, False]
    assert not history.has_room_for("rm-2") and history.has_room_for("rm-1")
    history.add("rm-1", [queue("root", {**both, "gpu": 1}), queue("root.a.b", {"vcore": 1})], EVERY)
    assert history.of("rm-1", "default", "root.a.b")["kept"] is False, "a third resource of root took the room"
    assert history.of("rm-1", "default", "root.c")["kept"] is False, "it is gone"
    history.forget(["rm-2"])
    assert history.has_room_for("rm-2") and not history.of("rm-1", "default", "root")["kept"]


class Queues:
    """A source of two RMs; one of them does not answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rms(self) -> list[str]:
        return ["rm-0", "rm-1"]

    async def stats(self, rm: str) -> Row:
        return {"allocations_ever": 7}

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        self.asked.append(rm)
        if rm == "rm-0":
            raise Unreadable("no core answers")
        return [queue("root", {"vcore": 1}), queue("root.a", {"vcore": 1}, submit_acl="alice")]


async def test_an_outage_of_one_rm_is_a_gap_of_that_rm() -> None:
    history, rates, source = QueueHistory(), Rates(), Queues()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sample_queues(source, history, rates), 0.05)  # type: ignore[arg-type]
    assert source.asked == ["rm-0", "rm-1"] and history.of("rm-1", "default", "root")["kept"]


@pytest.mark.parametrize(("operator", "is_kept"), [(None, True), ("alice", True), ("bob", False)])
async def test_the_history_shows_what_its_reader_may_see(operator: str | None, is_kept: bool) -> None:
    source: Any = Queues()
    app = Application(source, "1", 0, "info")
    app.queue_history.add("rm-1", await source.rows("rm-1", "queues"), 5)
    caller = Caller(reads_all=True) if operator is None else Caller(Operator(operator), reads_all=False)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, caller)
        await app(scope, receive, send)

    async with AsyncClient(transport=ASGITransport(guarded), base_url="http://web/api/v1") as client:
        found = (await client.get("/rms/rm-1/queue-history", params={"queue": "root.a"})).json()
        assert (found["kept"], found["times"]) == (is_kept, [5] if is_kept else [])
        assert (await client.get("/rms/rm-9/queue-history", params={"queue": "root"})).status_code == 404
        assert (await client.get("/rms/rm-1/queue-history")).status_code == 400


def devices(resource: str, fragments: int, **more: Any) -> Row:
    return {
        "resource": resource,
        "devices": 4,
        "capacity": 4_000,
        "free": 1_500,
        "whole": 1,
        "fragments": fragments,
        **more,
    }


class Topology:
    """A source of two RMs, of which one has devices in one of two partitions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def rms(self) -> list[str]:
        return ["rm-0", "rm-1"]

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        assert kind == "topology" and arguments.pop("limit") == 1
        name = arguments.get("after", [""])[0]
        self.asked.append((rm, name))
        units = {"gpu": 1_000} if rm == "rm-1" else {}
        partitions = [{"name": "default", "devices": {}}, {"name": "gpus", "devices": units}]
        domain = {"partition": name, "path": [], "devices": [devices("gpu", 500)]}
        return {"partitions": partitions, "domains": [domain]}


async def test_what_is_free_on_devices_is_sampled() -> None:
    history, source = DeviceHistory(), Topology()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sample_devices(source, history), 0.05)  # type: ignore[arg-type]
    assert source.asked == [("rm-0", ""), ("rm-1", ""), ("rm-1", "gpus")]
    found = history.of("rm-1", "gpus")
    assert found["kept"] and len(found["times"]) == 1
    assert found["resources"] == {"gpu": {"capacity": [4_000], "free": [1_500], "fragments": [500], "whole": [1_000]}}
    assert history.of("rm-0", "default") == {
        "rm": "rm-0", "partition": "default", "kept": False, "times": [], "resources": {},
    }  # fmt: skip


def test_resources_on_devices_are_kept_while_there_is_room() -> None:
    history = DeviceHistory(most_series=2)
    history.add("rm-1", "default", [devices("gpu", 1), devices("fpga", 2), devices("npu", 3)], 0)
    history.add("rm-2", "default", [devices("gpu", 1)], 0)
    history.add("rm-1", "default", [devices("gpu", 4), devices("npu", 3)], EVERY)
    assert history.of("rm-1", "default")["resources"]["gpu"]["fragments"] == [1, 4]
    assert history.of("rm-1", "default")["resources"]["fpga"]["fragments"] == [2, None]
    assert (
        set(history.of("rm-1", "default")["resources"]) == {"gpu", "fpga"} and not history.of("rm-2", "default")["kept"]
    )
    history.forget(["rm-2"])
    history.add("rm-2", "default", [devices("gpu", 1, devices=0)], 0)
    assert history.of("rm-2", "default")["resources"]["gpu"]["whole"] == [0]
    assert not history.of("rm-1", "default")["kept"]


async def test_the_history_of_devices_is_for_everybody() -> None:
    app = Application(Topology(), "1", 0, "info")  # type: ignore[arg-type]
    app.device_history.add("rm-1", "gpus", [devices("gpu", 500)], 5)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web/api/v1") as client:
        found = (await client.get("/rms/rm-1/device-history", params={"partition": "GPUs"})).json()
        assert (found["kept"], found["times"]) == (True, [5])
        assert (await client.get("/rms/rm-9/device-history")).status_code == 404
