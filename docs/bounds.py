"""Writes the table of bounds (remuda_proto.bounds) into bounds.md.

python -m docs.bounds [--check]
"""

from __future__ import annotations

from pathlib import Path

from docs.sections import main
from remuda_proto import bounds

INT64 = {bounds.INT64: "any int64", bounds.INT32: "any int32"}


def table() -> str:
    """One row for all fields with the same bound, reason and effect."""
    fields: dict[tuple[str, str, str], list[str]] = {}
    for field, bound in bounds.FIELDS.items():
        if row := describe(bound):
            fields.setdefault(row, []).append(f"`{field}`")
    lines = ["| fields | bound | reason | above it |", "|---|---|---|---|"]
    lines += [f"| {', '.join(bounded)} | {' | '.join(row)} |" for row, bounded in fields.items()]
    return "\n".join(lines) + "\n"


def describe(bound: bounds.Bound) -> tuple[str, str, str] | None:
    """Bound, reason, and what happens above it. None for a field that needs no bound."""
    match bound:
        case bounds.Text(most, why, cut):
            return f"{most:,} bytes", why, "shortened" if cut else "refused"
        case bounds.Texts(most, each, total, why):
            return f"{most:,} texts of {each:,} bytes, {total:,} bytes together", why, "refused"
        case bounds.TextMap(most, key, value, total, why):
            sizes = f"keys of {key:,} bytes, values of {value:,}, {total:,} bytes together"
            return f"{most:,} entries, {sizes}", why, "refused"
        case bounds.Items(most, why, key):
            return f"{most:,} entries{f', keys of {key:,} bytes' if key else ''}", why, "refused"
        case bounds.Number(least, most, why, saturates):
            numbers = INT64.get((least, most), f"{least:,} to {most:,}")
            return numbers, why, "saturates" if saturates else "refused"
        case bounds.Choice(unknown):
            return "the names of the enumeration", "other numbers mean nothing", unknown
    return None


if __name__ == "__main__":
    main(Path(__file__).with_name("bounds.md"), {"<!-- written by docs/bounds.py -->": table()})
