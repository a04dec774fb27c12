"""A ledger as a table of columns: one row per period, names and resource, in hours of its unit; or with the columns of
FOCUS 1.2, the specification of bills of the FinOps Foundation."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from remuda_operations.ledger import hours
from remuda_operations.ledger.hours import HOUR_MS
from remuda_operations.ledger.prices import Prices, base_units, money, unit_name
from remuda_operations.ledger.reading import TAG, TAGS, LedgerAnswer, LedgerRow

PROVIDER: Final = "remuda"
# By what rows of FOCUS are told apart.
FOCUS_BY: Final = ("partition", "queue", "user", "application", TAGS)
Column = tuple[str, type]


class Table(NamedTuple):
    """`columns`: name and type of each: str, Decimal or datetime."""

    columns: Sequence[Column]
    rows: list[tuple[Any, ...]]


class Costs(NamedTuple):
    """`rows`: as the query asked. `costs`: of each row, by resource."""

    rows: list[LedgerRow]
    costs: list[dict[str, Fraction]]


def by_of(by: Sequence[str], prices: Prices | None) -> tuple[str, ...]:
    """The names by which rows have to be read, so that prices can be told."""
    needed = prices.needs if prices is not None else ()
    return (*by, *(name for name in needed if name not in by and not (TAGS in by and name.startswith(TAG))))


def priced(rows: Sequence[LedgerRow], by: Sequence[str], prices: Prices | None) -> Costs:
    """Rows that were read by `by_of`, added up by `by` alone, with what they cost."""
    if prices is None:
        return Costs(list(rows), [{} for _ in rows])
    merged: dict[tuple[int, tuple[str, ...]], tuple[LedgerRow, dict[str, Fraction]]] = {}
    for row in rows:
        kept = {name: row.names[name] for name in by}
        key = row.from_ms, tuple(kept.values())
        into, costs = merged.setdefault(key, (LedgerRow(row.from_ms, row.until_ms, kept), {}))
        for kind, amounts in row.amounts.items():
            known = into.amounts.setdefault(kind, {})
            for name, amount in amounts.items():
                known[name] = known.get(name, 0) + amount
        for resource, cost in prices.costs(row).items():
            costs[resource] = costs.get(resource, Fraction(0)) + cost
    return Costs([row for row, _ in merged.values()], [costs for _, costs in merged.values()])


def as_json(
    answer: LedgerAnswer, by: Sequence[str], rows: Sequence[LedgerRow], costs: Sequence[Mapping[str, Fraction]],
    prices: Prices | None,
) -> dict[str, Any]:  # fmt: skip
    """Values for JSON: amounts exactly, of any size; costs as texts, by resource."""
    found = replace(answer, rows=list(rows)).as_json()
    found["by"] = list(by)
    if prices is not None:
        found["currency"] = prices.currency
        for row, of_row in zip(found["rows"], costs, strict=True):
            row["cost"] = {name: f"{money(cost):f}" for name, cost in sorted(of_row.items())}
    return found


def table(answer: LedgerAnswer, by: Sequence[str], prices: Prices | None = None) -> Table:
    found = priced(answer.rows, by, prices)
    columns: list[Column] = [("from", datetime), ("until", datetime), *((name, str) for name in by)]
    columns += [("resource", str), ("unit", str), *((f"{kind}_hours", Decimal) for kind in hours.KINDS)]
    if prices is not None:
        columns += [("cost", Decimal), ("currency", str)]
    rows = [
        (
            _at(row.from_ms), _at(row.until_ms), *(row.names[name] for name in by), resource, unit_name(resource),
            *(quantity(resource, row.amounts.get(kind, {}).get(resource, 0)) for kind in hours.KINDS),
            *((money(costs.get(resource, Fraction(0))), prices.currency) if prices is not None else ()),
        )
        for row, costs in zip(*found, strict=True)
        for resource in resources_of(row)
    ]  # fmt: skip
    return Table(columns, rows)


def focus(answer: LedgerAnswer, prices: Prices | None = None) -> Table:
    """The FOCUS table of an answer by FOCUS_BY. Without prices all costs are 0. Waste has columns of its own: it is
    charged as use already."""
    waste = tuple((f"x_{kind.capitalize()}Quantity", Decimal) for kind in hours.WASTE)
    columns: tuple[Column, ...] = (
        ("BillingAccountId", str), ("BillingAccountName", str), ("BillingCurrency", str),
        ("BillingPeriodStart", datetime), ("BillingPeriodEnd", datetime), ("ChargePeriodStart", datetime),
        ("ChargePeriodEnd", datetime), ("ChargeCategory", str), ("ChargeClass", str), ("ChargeDescription", str),
        ("ChargeFrequency", str), ("ProviderName", str), ("PublisherName", str), ("InvoiceIssuerName", str),
        ("ServiceCategory", str), ("ServiceSubcategory", str), ("ServiceName", str), ("SubAccountId", str),
        ("SubAccountName", str), ("ResourceId", str), ("ResourceName", str), ("ResourceType", str), ("SkuId", str),
        ("ConsumedQuantity", Decimal), ("ConsumedUnit", str), ("PricingQuantity", Decimal), ("PricingUnit", str),
        ("ListUnitPrice", Decimal), ("ContractedUnitPrice", Decimal), ("ListCost", Decimal),
        ("ContractedCost", Decimal), ("BilledCost", Decimal), ("EffectiveCost", Decimal), ("Tags", str),
        ("x_Partition", str), ("x_User", str), ("x_GangQuantity", Decimal), *waste,
    )  # fmt: skip
    rows = [
        _charge(answer.rm, row, resource, prices) for row in answer.rows for resource in resources_of(row)
    ]  # fmt: skip
    return Table(columns, rows)


def _charge(rm: str, row: LedgerRow, resource: str, prices: Prices | None) -> tuple[Any, ...]:
    names, unit = row.names, f"{unit_name(resource)} Hours"
    amounts = {kind: row.amounts.get(kind, {}).get(resource, 0) for kind in hours.KINDS}
    told = {**names, **{f"{TAG}{name}": value for name, value in json.loads(names[TAGS] or "{}").items()}}
    cost, per_unit = Decimal(0), Decimal(0)
    if prices is not None:
        price = prices.price(resource, hours.USED, told)
        per_unit = money(price.per_ms * base_units(resource) * HOUR_MS) if price is not None else Decimal(0)
        cost = money(sum((prices.cost(resource, kind, told, amount) for kind, amount in amounts.items()), Fraction(0)))
    used = quantity(resource, sum(amounts[kind] for kind in hours.USE))
    begin, end = _month(row.from_ms)
    return (
        rm, rm, prices.currency if prices is not None else "XXX", begin, end, _at(row.from_ms), _at(row.until_ms),
        "Usage", None, f"{resource} of {names['application']} in {names['queue']}", "Usage-Based",
        PROVIDER, PROVIDER, PROVIDER, "Compute", "Other (Compute)", PROVIDER, names["queue"], names["queue"],
        names["application"], names["application"], "Application", resource,
        used, unit, used, unit, per_unit, per_unit, cost, cost, cost, cost, names[TAGS] or "{}", names["partition"],
        names["user"], *(quantity(resource, amounts[kind]) for kind in (hours.GANG, *hours.WASTE)),
    )  # fmt: skip


def resources_of(row: LedgerRow) -> list[str]:
    return sorted({name for amounts in row.amounts.values() for name in amounts})


def quantity(resource: str, amount: int) -> Decimal:
    """An amount in base units times milliseconds, in hours of the unit of the resource."""
    return money(Fraction(amount, base_units(resource) * HOUR_MS))


def as_csv(found: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in found.columns])
    writer.writerows([_text(value) for value in row] for row in found.rows)
    return text.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{value.normalize():f}" if isinstance(value, Decimal) else _safe(str(value))


def _safe(text: str) -> str:
    """Spreadsheets take a text that begins so for a formula, and RMs choose names."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def as_parquet(found: Table) -> bytes:
    """Needs the extra `parquet`."""
    import pyarrow as pa
    import pyarrow.parquet

    types = {str: pa.string(), Decimal: pa.decimal128(38, 6), datetime: pa.timestamp("ms", tz="UTC")}
    columns = list(zip(*found.rows, strict=True)) or [() for _ in found.columns]
    arrays = [pa.array(values, types[kind]) for (_, kind), values in zip(found.columns, columns, strict=True)]
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(arrays, names=[name for name, _ in found.columns]), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


def _month(at_ms: int) -> tuple[datetime, datetime]:
    begin = _at(at_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return begin, begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
