"""Writes the list of bounds (remuda_proto.bounds) into bounds.md.

python -m docs.bounds [--check]
"""

from __future__ import annotations

from pathlib import Path

from docs.sections import main
from remuda_proto import bounds

INT64 = {bounds.INT64: "any int64", bounds.INT32: "any int32"}


def table() -> str:
    """A list, with one entry for all fields with the same bound, reason and effect."""
    fields: dict[str, list[str]] = {}
    for field, bound in bounds.FIELDS.items():
        if text := describe(bound):
            fields.setdefault(text, []).append(f"`{field}`")
    return "".join(f"- {', '.join(bounded)}: {text}\n" for text, bounded in fields.items())


def describe(bound: bounds.Bound) -> str | None:
    """The bound with its reason, and the effect above it where that is no refusal. None for a field that needs no
    bound."""
    match bound:
        case bounds.Text(most, why, cut):
            return f"{most:,} bytes{'; shortened' if cut else ''} ({why})"
        case bounds.Texts(most, each, total, why):
            return f"{most:,} texts of {each:,} bytes, {total:,} bytes together ({why})"
        case bounds.TextMap(most, key, value, total, why):
            return f"{most:,} entries, keys of {key:,} bytes, values of {value:,}, {total:,} bytes together ({why})"
        case bounds.Items(most, why, key):
            return f"{most:,} entries{f', keys of {key:,} bytes' if key else ''} ({why})"
        case bounds.Number(least, most, why):
            return f"{INT64.get((least, most), f'{least:,} to {most:,}')} ({why})"
        case bounds.Choice(unknown):
            return f"the names of the enumeration; another number {unknown}"
    return None


if __name__ == "__main__":
    main(Path(__file__).with_name("bounds.md"), {"<!-- written by docs/bounds.py -->": table()})
