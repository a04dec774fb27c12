"""Sums of a ledger, what they cost, their exports, and the method for operators."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_operations.ledger import exports, hours, reading
from remuda_operations.ledger.bookmark import Bookmark
from remuda_operations.ledger.hours import HOUR_MS, Row, RowKey
from remuda_operations.ledger.prices import Prices, money
from remuda_operations.ledger.reading import BadQuery, LedgerQuery, LedgerRow, Sums, read_ledger
from remuda_operations.operator_api import ledgers
from remuda_operations.operator_api.ledgers import Ledgers
from remuda_operations.operator_api.messages import READER
from remuda_proto.remuda.v1 import admin_pb2 as admin

RM = "rm:1"
# The begin of a day in UTC.
DAY_MS = round(datetime(2026, 11, 28, tzinfo=UTC).timestamp() * 1_000)
X = (("project", "x"),)
PRICES = """
currency: eur
prices:
  - {resource: gpu, queue: root.a, per_hour: 1.20}
  - {resource: gpu, per_hour: 2, kinds: [used]}
  - {resource: memory, per_hour: "0.004", tags: {project: x}}
  - {resource: vcore, unit: 500m, per_hour: 0.031, user: alice}
"""


def row(queue: str, user: str, application: str, kind: str = "used", tags: hours.Tags = (), **amounts: int) -> Row:
    """`amounts`: in base units, for an hour."""
    key = RowKey("default", queue, user, tags, application, kind)
    return Row(key, {name: amount * HOUR_MS for name, amount in amounts.items()})


HOURS = {
    DAY_MS: [
        row("root.a", "alice", "app-1", vcore=1_000, memory=2**30),
        row("root.a", "alice", "app-1", "lost", vcore=500),
        row("root.a.b", "bob", "app-2", tags=X, gpu=2, memory=3 * 2**30),
    ],
    DAY_MS + 2 * HOUR_MS: [
        row("root.a", "alice", "app-3", vcore=3_000),
        row("root.c", "alice", "app-4", "gang", gpu=1),
    ],
    DAY_MS + 24 * HOUR_MS: [row("root.a.b", "bob", "app-2", tags=X, gpu=4)],
}


def payloads() -> list[bytes]:
    return [payload for hour_ms, rows in HOURS.items() for payload in hours.encode(hour_ms, rows)]


def days() -> dict[int, list[Row]]:
    """The sums of the first day, which is closed."""
    sums: dict[RowKey, hours.Amounts] = {}
    for hour_ms, rows in HOURS.items():
        for key, amounts in rows if hour_ms < DAY_MS + 24 * HOUR_MS else ():
            kept = sums.setdefault(key, {})
            for name, amount in amounts.items():
                kept[name] = kept.get(name, 0) + amount
    return {DAY_MS: [Row(key, amounts) for key, amounts in sums.items()]}


@pytest.fixture
async def bus() -> MemoryBus:
    bus = MemoryBus()
    for hour_ms, rows in HOURS.items():
        for payload in hours.encode(hour_ms, rows):
            await bus.append(subjects.ledger(RM, hour_ms // HOUR_MS), payload)
    for day_ms, rows in days().items():
        for payload in hours.encode(day_ms, rows):
            await bus.append(subjects.ledger_days(RM, day_ms // (24 * HOUR_MS)), payload)
    bookmark = Bookmark(1, "", DAY_MS, DAY_MS + 25 * HOUR_MS)
    await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(RM), bookmark.encode())
    return bus


def query(*by: str, **more: Any) -> LedgerQuery:
    return LedgerQuery(**{"since_ms": DAY_MS, "until_ms": DAY_MS + 48 * HOUR_MS, "by": by, **more})


def summed(asked: LedgerQuery, seen: reading.Seen | None = None) -> list[LedgerRow]:
    sums = Sums(asked, seen)
    sums.add_all(payloads())
    return sums.rows()


def in_hours(rows: list[LedgerRow]) -> list[tuple[Any, ...]]:
    """Names and amounts, in hours of base units."""

    def of(amounts: hours.Amounts) -> dict[str, int]:
        return {name: amount // HOUR_MS for name, amount in amounts.items()}

    return [(*one.names.values(), {kind: of(amounts) for kind, amounts in one.amounts.items()}) for one in rows]


async def test_sums_by_queue_of_all_hours(bus: MemoryBus) -> None:
    answer = await read_ledger(bus, RM, query("queue"))
    assert (answer.begun_ms, answer.closed_ms) == (DAY_MS, DAY_MS + 25 * HOUR_MS)
    assert in_hours(answer.rows) == [
        ("root.a", {"used": {"vcore": 4_000, "memory": 2**30}, "lost": {"vcore": 500}}),
        ("root.a.b", {"used": {"gpu": 6, "memory": 3 * 2**30}}),
        ("root.c", {"gang": {"gpu": 1}}),
    ]
    assert json.loads(json.dumps(answer.as_json()))["rows"][1] == {
        "from_ms": DAY_MS, "until_ms": DAY_MS + 48 * HOUR_MS, "queue": "root.a.b", "tags": {},
        "used": {"gpu": 6 * HOUR_MS, "memory": 3 * 2**30 * HOUR_MS},
        "gang": {}, "lost": {}, "failed": {}, "kept": {}, "unreported": {},
    }  # fmt: skip


@pytest.mark.parametrize("per", reading.PER)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Atlantic/Azores"])
@pytest.mark.parametrize("since", [-30, 0, 1, 2, 3, 24])
@pytest.mark.parametrize("until", [-20, 1, 3, 24, 25, 60])
async def test_whole_days_are_read_as_such_and_nothing_counts_twice(
    bus: MemoryBus, per: str, zone: str, since: int, until: int
) -> None:
    if since >= until:
        return
    since_ms, until_ms = DAY_MS + since * HOUR_MS, DAY_MS + until * HOUR_MS
    asked = query("queue", "application", per=per, zone=zone, since_ms=since_ms, until_ms=until_ms)
    sums = Sums(asked)
    sums.add_all(
        payload
        for hour_ms, rows in HOURS.items()
        for payload in hours.encode(hour_ms, rows)
        if since_ms <= hour_ms < until_ms
    )
    assert (await read_ledger(bus, RM, asked)).rows == sums.rows()


async def test_only_hours_that_begin_in_the_time_count(bus: MemoryBus) -> None:
    found = await read_ledger(bus, RM, query("user", since_ms=DAY_MS + 1, until_ms=DAY_MS + 24 * HOUR_MS))
    assert in_hours(found.rows) == [("alice", {"used": {"vcore": 3_000}, "gang": {"gpu": 1}})]
    assert (await read_ledger(bus, "none", query())).rows == []


def test_rows_are_told_apart_by_application_tags_and_period():
    assert in_hours(summed(query("application", queue="root.a", per="day", application="app-2"))) == [
        ("app-2", {"used": {"gpu": 2, "memory": 3 * 2**30}}), ("app-2", {"used": {"gpu": 4}}),
    ]  # fmt: skip
    assert [(one.from_ms, one.names) for one in summed(query("tag:project", "tags", user="bob", per="hour"))] == [
        (DAY_MS, {"tag:project": "x", "tags": '{"project": "x"}'}),
        (DAY_MS + 24 * HOUR_MS, {"tag:project": "x", "tags": '{"project": "x"}'}),
    ]
    [month] = summed(query(per="month", zone="Europe/Berlin"))
    assert month.from_ms == round(datetime(2026, 10, 31, 23, tzinfo=UTC).timestamp() * 1_000)
    assert month.until_ms == round(datetime(2026, 11, 30, 23, tzinfo=UTC).timestamp() * 1_000)
    days = [one.from_ms for one in summed(query(per="day", zone="Asia/Kolkata"))]
    assert days == [DAY_MS - 11 * HOUR_MS // 2, DAY_MS + 37 * HOUR_MS // 2]


def test_a_queue_has_those_below_it_and_none_that_begins_alike():
    sums = Sums(query("queue", queue="root.a"))
    for payload in hours.encode(DAY_MS, [row(f"root.{name}", "u", "app", vcore=1) for name in ("a", "a.b", "ab", "b")]):
        sums.add_all([payload])
    assert [one.names["queue"] for one in sums.rows()] == ["root.a", "root.a.b"]


def test_a_month_ends_where_the_next_one_begins():
    begins = [round(datetime(2026 + n // 12, n % 12 + 1, 1, tzinfo=UTC).timestamp() * 1_000) for n in range(10, 14)]
    sums = Sums(query(per="month", since_ms=0, until_ms=begins[-1]))
    for month_ms in begins[:-1]:
        sums.add_all(hours.encode(month_ms + 5 * HOUR_MS, [row("root.a", "u", "app", vcore=1)]))
    assert [(one.from_ms, one.until_ms) for one in sums.rows()] == list(pairwise(begins))


def test_an_operator_sees_rows_of_some_queues_alone():
    assert in_hours(summed(query("queue"), lambda _, queue, user: queue == "root.c" or user == "bob")) == [
        ("root.a.b", {"used": {"gpu": 6, "memory": 3 * 2**30}}), ("root.c", {"gang": {"gpu": 1}}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        ({"by": ("x",)}, "by", "by 'x': expected partition, queue"), ({"by": ("tag:",)}, "by", "by 'tag:'"),
        ({"by": ("user", "user")}, "by", "expected each once"), ({"per": "week"}, "per", "per 'week': expected hour"),
        ({"until_ms": 0}, "since", "expected a time before until"),
        ({"zone": "Mars"}, "zone", "zone 'Mars': expected a time zone"),
        ({"zone": "../etc"}, "zone", "expected a time zone"),
    ],
)  # fmt: skip
def test_a_wrong_query_is_refused(asked: dict[str, Any], field: str, message: str):
    with pytest.raises(BadQuery, match=message) as refused:
        query(**{"by": (), **asked}) if "by" not in asked else LedgerQuery(0, 1, asked["by"])
    assert refused.value.field == field


@given(
    st.sets(st.sampled_from(("partition", "queue", "user", "application", "tag:project", "tags"))),
    st.sampled_from(reading.PER),
)
def test_sums_are_the_same_however_rows_are_told_apart(by: set[str], per: str):
    def total(rows: list[LedgerRow]) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for one in rows:
            for kind, amounts in one.amounts.items():
                for name, amount in amounts.items():
                    found[kind, name] = found.get((kind, name), 0) + amount
        return found

    assert total(summed(query(*sorted(by), per=per))) == total(summed(query()))


# Prices


def test_the_first_price_that_fits_counts_and_is_exact():
    prices = Prices.read(PRICES)
    by = ("user",)
    rows = summed(query(*exports.by_of(by, prices)))
    costs = exports.priced(rows, by, prices)
    assert [one.names for one in costs.rows] == [{"user": "alice"}, {"user": "bob"}]
    # alice: 4 core-hours in units of half a core; the gpu of a placeholder is free. bob: 6 gpu-hours below root.a.
    assert costs.costs[0]["vcore"] == Fraction("0.031") * 8
    assert costs.costs[0]["gpu"] == costs.costs[0]["memory"] == 0
    assert costs.costs[1] == {"gpu": Fraction("1.2") * 6, "memory": Fraction("0.004") * 3}
    assert money(costs.costs[1]["gpu"]) == Decimal("7.200000")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not YAML"), ("[]", "the file: expected fields"), ("currency: euro", "currency 'euro'"),
        ("currency: EUR\nprices: []", "prices: expected a list"),
        ("currency: EUR\nprice: []", "unknown field 'price', expected currency, prices"),
        ("currency: EUR\nprices: [{per_hour: 1}]", "prices.0..resource 'None'"),
        ("currency: EUR\nprices: [{resource: gpu}]", "per_hour 'None': expected a number"),
        ("currency: EUR\nprices: [{resource: gpu, per_hour: -1}]", "per_hour '-1'"),
        ("currency: EUR\nprices: [{resource: gpu, per_hour: .nan}]", "per_hour 'nan'"),
        ("currency: EUR\nprices: [{resource: gpu, per_hour: 1, unit: 1x}]", "unit: '1x' has an unknown suffix"),
        ("currency: EUR\nprices: [{resource: gpu, per_hour: 1, kinds: [x]}]", "kinds"),
        ("currency: EUR\nprices: [{resource: gpu, per_hour: 1, queue: 7}]", "queue '7': expected a text"),
        ("currency: EUR\nprices: [{resource: gpu, per_hour: 1, tags: 7}]", "tags: expected fields"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_prices_is_refused(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        Prices.read(text)


# Exports


async def answer(bus: MemoryBus, *by: str, **more: Any) -> reading.LedgerAnswer:
    return await read_ledger(bus, RM, query(*by, **more))


async def test_a_table_has_a_row_for_each_resource(bus: MemoryBus) -> None:
    prices = Prices.read(PRICES)
    found = await answer(bus, *exports.by_of(("queue",), prices))
    lines = list(csv.reader(io.StringIO(exports.as_csv(exports.table(found, ("queue",), prices)))))
    assert lines[0] == [
        "from", "until", "queue", "resource", "unit", "used_hours", "gang_hours", "lost_hours", "failed_hours",
        "kept_hours", "unreported_hours", "cost", "currency",
    ]  # fmt: skip
    whole = ["2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z"]
    assert lines[1:4] == [
        [*whole, "root.a", "memory", "GiB", "1", "0", "0", "0", "0", "0", "0", "EUR"],
        [*whole, "root.a", "vcore", "core", "4", "0", "0.5", "0", "0", "0", "0.248", "EUR"],
        [*whole, "root.a.b", "gpu", "gpu", "6", "0", "0", "0", "0", "0", "7.2", "EUR"],
    ]


async def test_focus_has_a_charge_for_each_application_and_resource(bus: MemoryBus) -> None:
    found = await answer(bus, *exports.FOCUS_BY, per="day")
    lines = list(csv.DictReader(io.StringIO(exports.as_csv(exports.focus(found, Prices.read(PRICES))))))
    [charge] = [line for line in lines if line["ResourceId"] == "app-2" and line["ConsumedQuantity"] == "4"]
    assert {name: charge[name] for name in (
        "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart",
        "ChargePeriodEnd", "ChargeCategory", "ConsumedUnit", "ListUnitPrice", "BilledCost", "EffectiveCost",
        "SubAccountId", "Tags", "x_User", "x_LostQuantity",
    )} == {
        "BillingAccountId": RM, "BillingCurrency": "EUR", "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z", "ChargePeriodStart": "2026-11-29T00:00:00Z",
        "ChargePeriodEnd": "2026-11-30T00:00:00Z", "ChargeCategory": "Usage", "ConsumedUnit": "gpu Hours",
        "ListUnitPrice": "1.2", "BilledCost": "4.8", "EffectiveCost": "4.8", "SubAccountId": "root.a.b",
        "Tags": '{"project": "x"}', "x_User": "bob", "x_LostQuantity": "0",
    }  # fmt: skip
    assert sum(Decimal(line["BilledCost"]) for line in lines) == Decimal("0.248") + Decimal("7.2") + Decimal("0.012")


def test_no_name_becomes_a_formula_of_a_spreadsheet():
    found = exports.Table([("user", str)], [("=cmd()",), ("-1",), ("alice",)])
    assert exports.as_csv(found).splitlines() == ["user", "'=cmd()", "'-1", "alice"]


async def test_parquet_has_the_same_rows(bus: MemoryBus) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = exports.focus(await answer(bus, *exports.FOCUS_BY, per="day"))
    import pyarrow as pa

    read = parquet.read_table(pa.BufferReader(exports.as_parquet(found)))
    assert read.column_names == [name for name, _ in found.columns]
    assert [tuple(one.values()) for one in read.to_pylist()] == found.rows
    assert parquet.read_table(pa.BufferReader(exports.as_parquet(exports.Table(found.columns, [])))).num_rows == 0


async def asked(bus: MemoryBus, **fields: Any) -> admin.GetLedgerResponse:
    return await Ledgers().get_ledger(bus, READER, admin.GetLedgerRequest(**{"rm": RM, **fields}))


async def test_the_method_answers_as_rest_with_amounts_as_texts(bus: MemoryBus) -> None:
    fields: dict[str, Any] = {"since_ms": DAY_MS + 1, "until_ms": DAY_MS + 48 * HOUR_MS}
    answer = await asked(bus, by=["queue", "tag:project"], queue="ROOT.a", **fields)
    assert (answer.rm, answer.begun_ms, answer.closed_ms) == (RM, DAY_MS, DAY_MS + 25 * HOUR_MS)
    above, below = answer.rows
    assert (above.queue, above.user, dict(above.tags)) == ("root.a", "", {"project": ""})
    assert dict(above.used) == {"vcore": f"{4_000 * HOUR_MS}", "memory": f"{2**30 * HOUR_MS}"}
    assert (dict(above.lost), dict(above.gang)) == ({"vcore": f"{500 * HOUR_MS}"}, {})
    assert (below.queue, below.tags["project"], below.used["gpu"]) == ("root.a.b", "x", f"{6 * HOUR_MS}")
    whole = await read_ledger(bus, RM, query())
    (row,) = (await asked(bus, **fields)).rows
    assert {name: int(amount) for name, amount in row.used.items()} == whole.rows[0].amounts["used"]
    assert (row.from_ms, row.until_ms, row.gang["gpu"]) == (DAY_MS, DAY_MS + 48 * HOUR_MS, f"{HOUR_MS}")
    by_day = await asked(bus, per="day", zone="Asia/Kolkata", user="bob", **fields)
    assert [one.used["gpu"] for one in by_day.rows] == [f"{2 * HOUR_MS}", f"{4 * HOUR_MS}"]


async def test_pages_of_the_method_are_sums_of_the_same_hours(bus: MemoryBus) -> None:
    fields: dict[str, Any] = {"since_ms": DAY_MS, "until_ms": DAY_MS + 48 * HOUR_MS, "per": "day"}
    fields["by"] = ["queue", "application"]
    whole, token = await asked(bus, **fields), ""
    found: list[admin.LedgerRow] = []
    for number in range(len(whole.rows)):
        page = await asked(bus, limit=1, page_token=token, **fields)
        found += page.rows
        token = page.next_page_token
        assert bool(token) == (number < len(whole.rows) - 1)
        if not number:  # a further hour is closed
            (late,) = hours.encode(DAY_MS + 25 * HOUR_MS, [row("root.a.b", "bob", "app-2", gpu=9)])
            await bus.append(subjects.ledger(RM, DAY_MS // HOUR_MS + 25), late)
    assert found == list(whole.rows) and len(found) == 5
    assert (await asked(bus, **fields)).rows[-1].used["gpu"] == f"{13 * HOUR_MS}"


@pytest.mark.parametrize("is_kept", [True, False])
async def test_each_page_says_the_whole_time(bus: MemoryBus, is_kept: bool) -> None:
    """Though hours of it are not closed yet, or the ledger is no longer kept."""
    if not is_kept:
        await bus.delete(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(RM), 1)
    fields: dict[str, Any] = {"since_ms": DAY_MS, "until_ms": DAY_MS + 48 * HOUR_MS, "by": ["queue"]}
    whole, token = await asked(bus, **fields), ""
    found: list[admin.LedgerRow] = []
    for _ in whole.rows:
        page = await asked(bus, limit=1, page_token=token, **fields)
        found += page.rows
        token = page.next_page_token
    assert found == list(whole.rows) and len(found) == 3 and not token
    assert {row.until_ms for row in found} == {fields["until_ms"]}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"by": [f"tag:{n}" for n in range(400)]}, "by has 2690 characters, expected at most 2000"),
        ({"by": ["tag:" + "x" * 2_000]}, "by has 2004 characters, expected at most 2000"),
        ({"by": ["cluster"]}, "by 'cluster': expected"), ({"per": "week"}, "per 'week': expected"),
        ({"zone": "Nowhere"}, "zone 'Nowhere': expected"), ({"since_ms": 5, "until_ms": 5}, "since_ms is 5, expected"),
        ({"since_ms": -1}, "since_ms is -1, expected 0 or more, and less than until_ms, "),
        ({"until_ms": -5}, "until_ms is -5, expected 0 or more"),
        ({"page_token": "{}"}, "page_token is '{}', expected"),
        ({"page_token": "[1,2,3]"}, "page_token is"), ({"rm": "*"}, r"rm is '\*', expected"),
        ({"rm": "other"}, "no resource manager 'other' is registered, and none has a ledger"),
    ],
)  # fmt: skip
async def test_the_method_names_wrong_fields(bus: MemoryBus, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said) as refused:
        await asked(bus, **fields)
    assert refused.value.code == (404 if "rm" in fields and fields["rm"] == "other" else 400)


async def test_the_method_refuses_too_many_rows(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "LEDGER_ROWS", 1)
    with pytest.raises(Refused, match="per: more than 1 rows"):
        await asked(bus, since_ms=DAY_MS, until_ms=DAY_MS + HOUR_MS, by=["user"])
