"""`remuda ledger`: what was used in closed hours, as a table, JSON, CSV, or with the columns of FOCUS. And what users
have used since some time, for `remuda usage --since`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_operations.ledger import exports, hours
from remuda_operations.ledger.hours import Amounts
from remuda_operations.ledger.prices import Prices, base_units, money, unit_name
from remuda_operations.ledger.reading import BadQuery, LedgerAnswer, LedgerQuery, LedgerRow, read_ledger

from .. import extras
from ..client.connections import answered
from ..errors import UserError
from ..terminal.output import console, is_wide, table_of
from ..terminal.units import number, ordered, time_of
from .past import when

Row = dict[str, Any]
USED_SINCE: Final = "used_since"
_FORMATS: Final = {"hour": "%Y-%m-%d %H:%M", "day": "%Y-%m-%d", "month": "%Y-%m"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, as they were given."""

    since: str
    until: str | None
    by: str | None
    per: str
    zone: str
    queue: str
    user: str
    application: str
    prices: Path | None
    csv: bool
    focus: bool
    parquet: Path | None


def ledger(url: str, rm: str, asked: Asked, as_json: bool) -> None:
    """Raises UserError."""
    if as_json and (asked.csv or asked.focus or asked.parquet is not None):
        raise UserError("--json: expected it without --csv, --focus and --parquet")
    if asked.parquet is not None:
        extras.need("parquet", "--parquet")
    prices = _read_prices(asked.prices) if asked.prices is not None else None
    by = exports.FOCUS_BY if asked.focus else tuple(one.strip() for one in (asked.by or "queue").split(",") if one)
    if asked.focus and asked.by is not None:
        raise UserError("--by: expected it without --focus, whose rows are by application")
    per = "day" if asked.focus and asked.per == "all" else asked.per
    query = _query(asked, exports.by_of(by, prices), per)
    answer = answered(url, lambda bus: _read(bus, rm, query))
    _print(answer, by, prices, asked, as_json)


async def _read(bus: Bus, rm: str, query: LedgerQuery) -> LedgerAnswer:
    answer = await read_ledger(bus, rm, query)
    if not answer.begun_ms and not answer.rows:
        raise UserError(f"{rm} has no ledger: events services keep one with `events.ledger: true` in remuda.yaml")
    return answer


def _print(answer: LedgerAnswer, by: tuple[str, ...], prices: Prices | None, asked: Asked, as_json: bool) -> None:
    if asked.csv or asked.focus or asked.parquet is not None:
        found = exports.focus(answer, prices) if asked.focus else exports.table(answer, by, prices)
        if asked.parquet is None:
            print(exports.as_csv(found), end="")
            return
        try:
            asked.parquet.write_bytes(exports.as_parquet(found))
        except OSError as error:
            raise UserError(f"--parquet {asked.parquet}: {error.strerror}") from None
        console.print(f"{number(len(found.rows))} rows are saved in {asked.parquet}", markup=False)
        return
    rows, costs = exports.priced(answer.rows, by, prices)
    if as_json:
        print(json.dumps(exports.as_json(answer, by, rows, costs, prices)))
        return
    if rows:
        console.print(_table(answer, by, rows, costs, prices))
    else:
        console.print(Text("nothing was used in closed hours of that time", style="dim"))
    console.print(
        f"kept since {time_of(answer.begun_ms)}, closed up to {time_of(answer.closed_ms)}", style="dim", markup=False
    )


def _read_prices(file: Path) -> Prices:
    try:
        return Prices.read(file.read_text())
    except OSError as error:
        raise UserError(f"--prices {file}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"--prices {file}: {error}") from None


def _query(asked: Asked, by: tuple[str, ...], per: str) -> LedgerQuery:
    since_ms = hours.hour_of(_time("--since", asked.since))
    until_ms = _time("--until", asked.until or "now")
    try:
        return LedgerQuery(
            since_ms, until_ms, by, per, asked.zone, queue=asked.queue.lower(), user=asked.user,
            application=asked.application,
        )  # fmt: skip
    except BadQuery as error:
        raise UserError(f"--{error.field}: {error}") from None


def _time(option: str, text: str) -> int:
    found = when(text)
    if not found.ms:
        raise UserError(f"{option} {text[:64]!r}: expected a time, or a duration before now such as 7d")
    return found.ms


def _table(
    answer: LedgerAnswer, by: Sequence[str], rows: Sequence[LedgerRow], costs: Sequence[Mapping[str, Fraction]],
    prices: Prices | None,
) -> Table:  # fmt: skip
    per, place = answer.query.per, answer.query.place()
    wide = is_wide()
    kinds = hours.KINDS if wide else ("used", "wasted")
    columns = (*((per,) if per != "all" else ()), *by, *kinds, *((prices.currency,) if prices is not None else ()))
    shown = table_of(*columns)
    for row, of_row in zip(rows, costs, strict=True):
        amounts = [row.amounts.get(kind, {}) for kind in kinds] if wide else [row.of_use(), _wasted(row)]
        shown.add_row(
            *((_begin(row.from_ms, per, place),) if per != "all" else ()),
            *(Text(row.names[name]) for name in by),
            *(Text(hours_of(one)) for one in amounts),
            *((f"{money(sum(of_row.values(), Fraction(0))):,.2f}",) if prices is not None else ()),
        )
    return shown


def _begin(at_ms: int, per: str, place: tzinfo) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, place).strftime(_FORMATS[per])


def _wasted(row: LedgerRow) -> Amounts:
    total: Amounts = defaultdict(int)
    for kind in (hours.LOST, hours.FAILED, hours.KEPT):
        for name, amount in row.amounts.get(kind, {}).items():
            total[name] += amount
    return total


def hours_of(amounts: Mapping[str, int]) -> str:
    """Amounts in base units times milliseconds as `12.5 core-hours, 40 GiB-hours`."""
    return ", ".join(
        f"{number(amounts[name] / (base_units(name) * hours.HOUR_MS))} {unit_name(name)}-h"
        for name in ordered(amounts)
        if amounts[name]
    ) or "-"  # fmt: skip


async def with_past(bus: Bus, rm: str, since: str, rows: list[Row]) -> list[Row]:
    """Rows of usage with the field USED_SINCE: what the user has used in the queue and below it. And rows of users who
    use nothing there now. The ledger knows no groups."""
    query = LedgerQuery(hours.hour_of(_time("--since", since)), _time("", "now"), ("partition", "queue", "user"))
    answer = await _read(bus, rm, query)
    past: dict[tuple[str, str, str], Amounts] = {}
    for one in answer.rows:
        partition, queue, user = (one.names[name] for name in query.by)
        names = queue.split(".")
        for path in (".".join(names[:count]) for count in range(1, len(names) + 1)):
            total = past.setdefault((partition, path, user), {})
            for name, amount in one.of_use().items():
                total[name] = total.get(name, 0) + amount
    known = set[tuple[str, str, str]]()
    for row in rows:
        key = row["partition"], row["queue"], row.get("user") or ""
        known.add(key)
        row[USED_SINCE] = past.get(key, {}) if key[2] else {}
    gone = [
        {"partition": partition, "queue": path, "user": user, USED_SINCE: total}
        for (partition, path, user), total in sorted(past.items())
        if (partition, path, user) not in known
    ]
    return [*rows, *gone]
