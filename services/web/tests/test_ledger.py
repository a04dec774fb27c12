"""The ledger as REST: sums, CSV, FOCUS, who sees what, and what is refused."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient, Response

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark
from remuda_operations.ledger.hours import HOUR_MS, Row, RowKey
from remuda_operations.ledger.prices import Prices
from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator
from remuda_web import limits
from remuda_web.app import Application
from remuda_web.callers import set_caller

from .test_restricted import Source

HOUR = hours.hour_of(time.time_ns() // 1_000_000) - 2 * HOUR_MS
PRICES = Prices.read("currency: EUR\nprices:\n  - {resource: vcore, queue: root.secret, per_hour: 2}\n")


def row(queue: str, user: str, kind: str = "used", **amounts: int) -> Row:
    key = RowKey("default", queue, user, (("project", "x"),), f"app-of-{user}", kind)
    return Row(key, {name: amount * HOUR_MS for name, amount in amounts.items()})


async def kept() -> MemoryBus:
    """The RM `gone` is registered no more."""
    bus = MemoryBus()
    rows = [
        row("root.own", "zoe", vcore=1_000, memory=2**50), row("root.secret", "zoe", "lost", vcore=2_000),
        row("root.secret", "eve", vcore=3_000),
    ]  # fmt: skip
    for rm in ("rm", "gone"):
        for payload in hours.encode(HOUR, rows):
            await bus.append(subjects.ledger(rm, HOUR // HOUR_MS), payload)
    mark = Bookmark(1, "", HOUR, HOUR + HOUR_MS).encode()
    await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key("rm"), mark)
    return bus


async def get(rm: str = "rm", operator: str | None = None, prices: Prices | None = None, **given: str) -> Response:
    app = Application(Source(), "1", 0, "info", await kept(), prices=prices)  # type: ignore[arg-type]
    caller = Caller(reads_all=True) if operator is None else Caller(Operator(operator), reads_all=False)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, caller)
        await app(scope, receive, send)

    async with AsyncClient(transport=ASGITransport(guarded), base_url="http://web/api/v1") as client:
        return await client.get(f"/rms/{rm}/ledger", params=given)


async def test_sums_have_amounts_of_any_size_and_costs() -> None:
    found = (await get(prices=PRICES, by="user")).json()
    assert {name: found[name] for name in ("rm", "by", "per", "begun_ms", "closed_ms", "currency")} == {
        "rm": "rm", "by": ["user"], "per": "all", "begun_ms": HOUR, "closed_ms": HOUR + HOUR_MS, "currency": "EUR",
    }  # fmt: skip
    eve, zoe = found["rows"]
    assert (eve["user"], eve["used"], eve["cost"]) == ("eve", {"vcore": 3_000 * HOUR_MS}, {"vcore": "6.000000"})
    assert zoe["used"]["memory"] == 2**50 * HOUR_MS > 2**63
    assert (zoe["lost"], zoe["cost"]["vcore"]) == ({"vcore": 2_000 * HOUR_MS}, "0.000000")


async def test_an_operator_sees_own_rows_and_those_of_visible_queues() -> None:
    found = (await get(operator="eve", by="queue,user")).json()
    assert [(one["queue"], one["user"]) for one in found["rows"]] == [("root.own", "zoe"), ("root.secret", "eve")]
    assert (await get(operator="mallory", by="queue,user")).json()["rows"] == []
    assert "secret" not in (await get(operator="mallory", format="focus")).text


async def test_csv_and_focus() -> None:
    answer = await get(by="queue", format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(one["queue"], one["resource"], one["used_hours"], one["lost_hours"]) for one in lines] == [
        ("root.own", "memory", "1048576", "0"), ("root.own", "vcore", "1", "0"), ("root.secret", "vcore", "3", "2"),
    ]  # fmt: skip
    charges = list(csv.DictReader(io.StringIO((await get(format="focus", prices=PRICES)).text)))
    assert [(one["ResourceId"], one["SubAccountId"], one["BilledCost"], one["Tags"]) for one in charges][-2:] == [
        ("app-of-eve", "root.secret", "6", '{"project": "x"}'), ("app-of-zoe", "root.secret", "0", '{"project": "x"}'),
    ]  # fmt: skip


async def test_hours_of_an_rm_that_is_gone_can_be_read() -> None:
    assert len((await get("gone")).json()["rows"]) == 2
    assert (await get("never")).status_code == 404
    assert (await get("a b")).status_code == 404


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        ({"since": "tomorrow"}, 400, "since"), ({"until": "9" * 20}, 400, "until"), ({"since": "0m"}, 200, ""),
        ({"by": "queue,cluster"}, 400, "by"), ({"zone": "Nowhere"}, 400, "zone"), ({"per": "week"}, 400, "per"),
        ({"since": "2026-11-28T10:00Z", "until": "2026-11-28T09:00Z"}, 400, "since"),
        ({"format": "xml"}, 400, "format"), ({"users": "x"}, 400, "users"), ({"since": "9d", "until": "1d"}, 200, ""),
    ],
)  # fmt: skip
async def test_wrong_parameters_are_named(given: Mapping[str, str], status: int, field: str) -> None:
    answer = await get("rm", None, None, **given)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert field in (answer.json().get("field", ""), answer.json()["field"].rpartition(".")[2])
        assert answer.headers["content-type"] == "application/problem+json"


async def test_an_answer_with_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEDGER_ROWS", 1)
    answer = await get(by="queue,user,application", per="hour")
    assert (answer.status_code, answer.json()["field"]) == (422, "per")
