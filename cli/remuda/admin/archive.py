"""`remuda archive`: what an archive has, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.table import Table

from .. import extras
from ..errors import UserError
from ..terminal import event_loop
from ..terminal.output import console
from ..terminal.units import size

if TYPE_CHECKING:
    from remuda_archive.holdings import Holdings
    from remuda_archive.store import Store
    from remuda_archive.verify import Finding

T = TypeVar("T")


class Archived(msgspec.Struct, frozen=True):
    """The part of an RM's past that an archive has. `since`, `until`: the first and the last hour, in UTC. `commit`:
    the sequence of the last commit."""

    rm: str
    since: str
    until: str
    commit: int
    segments: int
    snapshots: int
    bytes: int


class Checked(msgspec.Struct, frozen=True):
    """The numbers of the objects that were read of an RM, and their damage."""

    rm: str
    commits: int
    segments: int
    snapshots: int
    bytes: int
    findings: list[Finding]


def list_archive(where: str, options: Sequence[str], as_json: bool) -> None:
    rows = _with(where, options, _listed)
    if as_json:
        sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
        return
    table = Table()
    table.add_column("RM", overflow="fold")
    for name in ("since, UTC", "until"):
        table.add_column(name, no_wrap=True)
    for name in ("commit", "segments", "snapshots", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        numbers = (f"{row.commit:,}", f"{row.segments:,}", f"{row.snapshots:,}", size(row.bytes))
        table.add_row(row.rm, row.since, row.until, *numbers)
    console.print(table)


def verify(where: str, rms: Sequence[str], options: Sequence[str], as_json: bool) -> None:
    """Raises SystemExit(1) when there is damage. Gaps that the archive itself names are none."""
    found = _with(where, options, lambda store: _verified(store, rms, as_json))
    damage = sum(not finding.is_gap for one in found for finding in one.findings)
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        console.print(f"{damage} damaged or missing" if damage else "no damage")
    if damage:
        raise SystemExit(1)


async def _listed(store: Store) -> list[Archived]:
    return [_row(one) for one in await _holdings(store)]


async def _verified(store: Store, rms: Sequence[str], is_quiet: bool) -> list[Checked]:
    from remuda_archive.verify import Verified, verify

    held = [one.rm for one in await _holdings(store)]
    for rm in rms:
        if rm not in held:
            raise UserError(f"RM {rm!r}: expected one of the archive, which has {', '.join(held) or 'none'}")
    checked = []
    for rm in rms or held:
        verified, findings = Verified(), []
        async for finding in verify(store, rm, verified):
            findings.append(finding)
            if not is_quiet:
                console.print(
                    f"{'gap' if finding.is_gap else 'damage'}: {finding.name}: {finding.text}", soft_wrap=True
                )
        counts = (verified.commits, verified.segments, verified.snapshots, verified.bytes)
        checked.append(Checked(rm, *counts, findings))
        if not is_quiet:
            counted = (
                f"{verified.commits:,} commits in {verified.segments:,} segments, {verified.snapshots:,} snapshots"
            )
            gaps = sum(one.is_gap for one in findings)
            console.print(f"{rm}: {counted}, {size(verified.bytes)}; {gaps} gaps")
    return checked


def _row(held: Holdings) -> Archived:
    hours = [one.hour for one in held.segments] or [one.hour for one in held.snapshots] or [""]
    commit = held.segments[-1].end if held.segments else 0
    bytes_ = sum(one.size for one in held.objects)
    return Archived(held.rm, min(hours), max(hours), commit, len(held.segments), len(held.snapshots), bytes_)


async def _holdings(store: Store) -> list[Holdings]:
    from remuda_archive.holdings import holdings_of_all

    return holdings_of_all(await store.names())


def _with(where: str, options: Sequence[str], work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    extras.need("archive", "remuda archive")
    from pathlib import Path

    from remuda_archive.settings import ArchiveSettings
    from remuda_archive.store import Store, StoreFailed

    if "://" not in where and not Path(where).is_dir():
        raise UserError(f"{where}: expected the directory of an archive, or a URL")
    try:
        settings = ArchiveSettings(store=where, options=tuple(options))
        return event_loop.run(lambda: work(Store.open(where, settings.option_values)))
    except (StoreFailed, ValueError) as error:
        raise UserError(str(error)) from None
