"""Closed hours of a ledger as messages of the stream LEDGER, and back. Days, sums of their hours, have the same form.

An hour is one message, or several parts that are appended together. Rows that differ only by application are one group,
whose sums precede its applications: a reader that does not ask for applications decodes none.

Amounts are in base units times milliseconds. They exceed 64 bits (a TB of memory for an hour does not fit), so they are
integers in Python and decimal texts where a message cannot hold them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

HOUR_MS: Final = 3_600_000
HOURS_OF_DAY: Final = 24
FORMAT: Final = 1
# Of the names and amounts in one message, before they are compressed: less than any server of ours takes.
PART_BYTES: Final = 400_000

USED: Final = "used"
GANG: Final = "gang"
LOST: Final = "lost"
FAILED: Final = "failed"
KEPT: Final = "kept"
UNREPORTED: Final = "unreported"
# What was used: these kinds sum to the integral over the log. All others are waste: they repeat amounts, or never were
# use.
USE: Final = (USED, GANG)
WASTE: Final = (LOST, FAILED, KEPT, UNREPORTED)
KINDS: Final = (*USE, *WASTE)
# The row of what was too much to be listed has this name in place of the application, or of all names.
OTHERS: Final = "others"

Amounts = dict[str, int]
Tags = tuple[tuple[str, str], ...]


class RowKey(NamedTuple):
    """The key of a row. `partition`: its plain name. `tags`: name and value of each listed tag that was given, by name.
    `kind`: one of KINDS."""

    partition: str
    queue: str
    user: str
    tags: Tags
    application: str
    kind: str


class Row(NamedTuple):
    """`amounts`: by resource, in base units times milliseconds; never 0."""

    key: RowKey
    amounts: Amounts


class Group(msgspec.Struct, array_like=True, frozen=True):
    """Rows that differ by application and kind. `sums`: by kind and resource. `applications`: encoded, by application,
    kind and resource."""

    partition: str
    queue: str
    user: str
    tags: dict[str, str]
    sums: dict[str, dict[str, int | str]]
    applications: msgspec.Raw

    def rows(self) -> Iterator[tuple[str, str, Amounts]]:
        """Application, kind and amounts of each row."""
        for application, kinds in _APPLICATIONS.decode(self.applications).items():
            for kind, amounts in kinds.items():
                yield application, kind, _read_amounts(amounts)

    def totals(self) -> Iterator[tuple[str, Amounts]]:
        """Kind and amounts of all applications together."""
        for kind, amounts in self.sums.items():
            yield kind, _read_amounts(amounts)


class Part(msgspec.Struct, frozen=True):
    """A message: a part of an hour or a day, from 0. `hour_ms`: its begin."""

    format: int
    hour_ms: int
    part: int
    parts: int
    groups: list[Group]


_APPLICATIONS: Final = msgspec.msgpack.Decoder(dict[str, dict[str, dict[str, int | str]]])
_PART: Final = msgspec.msgpack.Decoder(Part)


def hour_of(at_ms: int) -> int:
    """The begin of the hour."""
    return at_ms - at_ms % HOUR_MS


def day_of(at_ms: int) -> int:
    """The begin of the day, of UTC."""
    return at_ms - at_ms % (HOURS_OF_DAY * HOUR_MS)


def encode(hour_ms: int, rows: Iterable[Row]) -> list[bytes]:
    """The messages of an hour. The same rows give the same bytes, in whatever order they come. No row: no message."""
    parts: list[list[Group]] = []
    left = 0
    for _, alike in groupby(sorted(rows), key=lambda row: row.key[:4]):
        some: list[Row] = []
        for row in alike:
            size = _size(row)
            if size > left:
                if some:
                    parts[-1].append(_group(some))
                    some = []
                parts.append([])
                left = PART_BYTES
            some.append(row)
            left -= size
        parts[-1].append(_group(some))
    return [
        zlib.compress(msgspec.msgpack.encode(Part(FORMAT, hour_ms, number, len(parts), groups)), 6)
        for number, groups in enumerate(parts)
    ]


def _size(row: Row) -> int:
    """At most so many bytes in a message, with the names of its group and its share of the group's sums."""
    names = sum(map(len, (*row.key[:3], row.key.application))) + sum(
        len(name) + len(value) for name, value in row.key.tags
    )
    return 4 * names + sum(80 + 8 * len(name) for name in row.amounts) + 40


def decode(payload: bytes) -> Part:
    """Raises ValueError when the payload is no part of an hour, or has a format of a newer version."""
    try:
        content = zlib.decompress(payload)
        found = _PART.decode(content)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"it is no hour of a ledger: {error}") from None
    if found.format != FORMAT:
        raise ValueError(f"its format is {found.format}, this version reads {FORMAT}")
    return found


def rows_of(part: Part) -> Iterator[Row]:
    for group in part.groups:
        tags = tuple(sorted(group.tags.items()))
        for application, kind, amounts in group.rows():
            yield Row(RowKey(group.partition, group.queue, group.user, tags, application, kind), amounts)


def _group(rows: list[Row]) -> Group:
    sums: dict[str, Amounts] = {}
    applications: dict[str, dict[str, dict[str, int | str]]] = {}
    for key, amounts in rows:
        total = sums.setdefault(key.kind, {})
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
        applications.setdefault(key.application, {})[key.kind] = write_amounts(amounts)
    key = rows[0].key
    written = {kind: write_amounts(amounts) for kind, amounts in sums.items()}
    raw = msgspec.Raw(msgspec.msgpack.encode(applications))
    return Group(key.partition, key.queue, key.user, dict(key.tags), written, raw)


def write_amounts(amounts: Mapping[str, int]) -> dict[str, int | str]:
    """Integers beyond 63 bits as texts, by resource."""
    return {name: amount if -(2**63) <= amount < 2**63 else str(amount) for name, amount in sorted(amounts.items())}


def _read_amounts(amounts: Mapping[str, int | str]) -> Amounts:
    return {name: amount if isinstance(amount, int) else int(amount) for name, amount in amounts.items()}
