"""`remuda ledger` and `remuda usage --since` on a ledger in memory."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from remuda.errors import UserError
from remuda.show.ledger import USED_SINCE, Asked, hours_of, ledger, with_past
from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark
from remuda_operations.ledger.hours import HOUR_MS, Row, RowKey

RM = "rm-1"
HOUR = hours.hour_of(time.time_ns() // 1_000_000) - 2 * HOUR_MS
NOTHING = Asked("24h", None, None, "all", "UTC", "", "", "", None, csv=False, focus=False, parquet=None)


def row(queue: str, user: str, kind: str = "used", **amounts: int) -> Row:
    key = RowKey("default", queue, user, (), f"app-of-{user}", kind)
    return Row(key, {name: amount * HOUR_MS for name, amount in amounts.items()})


async def kept() -> MemoryBus:
    bus = MemoryBus()
    rows = [
        row("root.a", "alice", vcore=12_500, memory=40 * 2**30), row("root.a", "alice", "lost", vcore=2_000),
        row("root.b.c", "bob", "gang", gpu=3),
    ]  # fmt: skip
    for payload in hours.encode(HOUR, rows):
        await bus.append(subjects.ledger(RM, HOUR // HOUR_MS), payload)
    mark = Bookmark(1, "", HOUR - HOUR_MS, HOUR + HOUR_MS).encode()
    await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(RM), mark)
    return bus


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def show(rm: str = RM, as_json: bool = False, **changed: Any) -> str:
        @asynccontextmanager
        async def bus_at(_: str) -> AsyncIterator[MemoryBus]:
            yield await kept()

        monkeypatch.setattr("remuda.client.connections.bus_at", bus_at)
        ledger("nats://nowhere", rm, Asked(**{**{n: getattr(NOTHING, n) for n in Asked.__slots__}, **changed}), as_json)
        return capsys.readouterr().out

    return show


def test_a_table_has_use_and_waste(show: Callable[..., str]) -> None:
    lines = [line.split("  ") for line in show().splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[:3] == [
        ["queue", "used", "wasted"], ["root.a", "12.5 core-h, 40 GiB-h", "2 core-h"], ["root.b.c", "3 gpu-h", "-"],
    ]  # fmt: skip
    assert "closed up to" in lines[3][0]


def test_rows_by_user_and_hour_have_costs(show: Callable[..., str], tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nprices:\n  - {resource: vcore, queue: root.a, per_hour: 0.04}\n")
    text = show(by="user", per="hour", prices=prices)
    assert "EUR" in text.splitlines()[0]
    assert text.splitlines()[1].rstrip().endswith("0.50")
    found = json.loads(show(as_json=True, by="user", prices=prices))
    assert (found["by"], found["currency"]) == (["user"], "EUR")
    assert [(one["user"], one["cost"].get("vcore")) for one in found["rows"]] == [("alice", "0.500000"), ("bob", None)]
    assert found["rows"][0]["used"] == {"vcore": 12_500 * HOUR_MS, "memory": 40 * 2**30 * HOUR_MS}


def test_csv_and_focus(show: Callable[..., str]) -> None:
    lines = list(csv.DictReader(io.StringIO(show(by="user", csv=True))))
    assert [(one["user"], one["resource"], one["used_hours"]) for one in lines] == [
        ("alice", "memory", "40"), ("alice", "vcore", "12.5"), ("bob", "gpu", "0"),
    ]  # fmt: skip
    charges = list(csv.DictReader(io.StringIO(show(focus=True))))
    assert [(one["ResourceId"], one["ConsumedQuantity"]) for one in charges][-1] == ("app-of-bob", "3")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"by": "cluster"}, "--by: by 'cluster': expected partition, queue"),
        ({"per": "week"}, "--per: per 'week'"), ({"since": "1234"}, "--since '1234': expected a time"),
        ({"since": "1h", "until": "3h"}, r"--since: since is 20\S+, expected a time before until, 20\S+$"),
        ({"zone": "Nowhere"}, "--zone: zone 'Nowhere'"), ({"rm": "other"}, "other has no ledger"),
        ({"focus": True, "as_json": True}, "--json: expected it without"), ({"focus": True, "by": "user"}, "--by"),
        ({"prices": Path("/none/such")}, "--prices /none/such: No such file"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(show: Callable[..., str], changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        show(**changed)


def test_parquet_needs_its_extra(show: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "ledger.parquet"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(UserError, match=r"pip install 'remuda-scheduler\[parquet\]'"):
            show(parquet=file)
    else:
        assert "saved" in show(parquet=file)
        assert file.read_bytes()[:4] == b"PAR1"


def test_usage_has_what_was_used_since_in_each_queue_and_those_above() -> None:
    of_root = {"partition": "default", "queue": "root"}
    now: list[dict[str, Any]] = [{**of_root, "user": "alice"}, {**of_root, "group": "x"}]

    async def ask() -> list[dict[str, Any]]:
        return await with_past(await kept(), RM, "24h", now)

    rows = asyncio.run(ask())
    assert [(one["queue"], one.get("user"), hours_of(one[USED_SINCE])) for one in rows] == [
        ("root", "alice", "12.5 core-h, 40 GiB-h"), ("root", None, "-"), ("root", "bob", "3 gpu-h"),
        ("root.a", "alice", "12.5 core-h, 40 GiB-h"), ("root.b", "bob", "3 gpu-h"), ("root.b.c", "bob", "3 gpu-h"),
    ]  # fmt: skip
