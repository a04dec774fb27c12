"""`remuda diff` and `remuda bisect`: what changed in the past of a resource manager, and what changed it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.text import Text

from .. import extras
from ..errors import UserError
from ..terminal import event_loop
from ..terminal.output import console, table_of
from ..terminal.units import amount, number, time_of

if TYPE_CHECKING:
    from ..history.bisect import Found
    from ..history.compare_states import Change, Changes
    from ..history.past import At, Past

T = TypeVar("T")
_RESOURCES = frozenset(
    {"allocated", "pending", "guaranteed", "max", "capacity", "occupied", "used", "available", "lost_amount_hours"}
)


def diff(archive: str | None, options: Sequence[str], rm: str, since: str, until: str | None, as_json: bool) -> None:
    begin, end = when(since), when(until)

    async def compare(past: Past) -> Changes:
        from ..history.compare_states import changes

        return await changes(past, begin, end)

    found = with_past(archive, options, rm, compare)
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    first, last = found.log_seqs
    console.print(
        f"{rm} from commit {first:,} ({time_of(found.at_ms[0])}) to {last:,} ({time_of(found.at_ms[1])})", style="bold"
    )
    for cause in found.causes:
        who = f"{cause.who}: " if cause.who else ""
        console.print(Text(f"{time_of(cause.at_ms)}  {who}{cause.text}  [commit {cause.log_seq}]"), soft_wrap=True)
    before, after = found.configuration
    console.print(f"configuration {before[:12] or 'none'}{f' → {after[:12]}' if before != after else ', the same'}")
    for kind, rows in (("queues", found.queues), ("nodes", found.nodes), ("usage", found.usage)):
        _show_changes(kind, rows)


def bisect(
    archive: str | None, options: Sequence[str], rm: str, text: str, since: str | None, until: str | None, as_json: bool
) -> None:
    """Raises UserError if the condition never holds."""
    from ..history.condition import condition_of

    try:
        condition = condition_of(text)
    except ValueError as error:
        raise UserError(str(error)) from None
    begin, end = when(since) if since is not None else None, when(until)

    async def search(past: Past) -> Found:
        from ..history.bisect import bisect as search_all

        return await search_all(past, condition, begin, end)

    found = with_past(archive, options, rm, search)
    if as_json:
        print(msgspec.json.encode(found).decode())
    if found.holds_at_begin:
        if not as_json:
            console.print(f"it holds already at commit {found.since_seq}, where the search begins")
        return
    if not found.log_seq:
        raise UserError(f"{text}: it holds after none of {found.looked_at:,} commits up to {found.until_seq:,}")
    if not as_json:
        by = (
            f"  [{found.command}{', ' + found.correlation_id if found.correlation_id else ''}]" if found.command else ""
        )
        console.print(
            f"commit {found.log_seq:,} at {time_of(found.at_ms)}, the first of {found.looked_at:,}", style="bold"
        )
        console.print(Text(f"{found.cause or 'it holds with the time of this commit'}{by}"), soft_wrap=True)
        for line in found.around:
            console.print(Text(f"  {line}", style="dim"), soft_wrap=True)


def with_past(
    archive: str | None, options: Sequence[str], rm: str, work: Callable[[Past], Coroutine[Any, Any, T]]
) -> T:
    """Does the work with what an archive has of the RM. Raises UserError."""
    extras.need("archive", "this command")
    from remuda_archive.segments import Damaged
    from remuda_archive.settings import ArchiveSettings
    from remuda_archive.store import Store, StoreFailed
    from remuda_bus.bus import HistoryChanged

    from ..history.past import NoPast, Past

    if archive is None:
        raise UserError("--archive (REMUDA_ARCHIVE) is missing: expected where the archive is, a directory or a URL")
    if "://" not in archive and not Path(archive).is_dir():
        raise UserError(f"{archive}: expected the directory of an archive, or a URL")

    async def run() -> T:
        store = Store.open(archive, ArchiveSettings(options=tuple(options)).option_values)
        return await work(await Past.open(store, rm))

    try:
        return event_loop.run(run)
    except (NoPast, StoreFailed, ValueError) as error:
        if isinstance(error, Damaged):
            raise UserError(f"{archive}: {error}; `remuda archive verify` says where") from None
        raise UserError(str(error)) from None
    except HistoryChanged as error:
        raise UserError(f"{archive}: {error}; `remuda archive verify` says where") from None


def when(text: str | None) -> At:
    """Raises UserError."""
    from ..history.past import LAST
    from ..history.when import at_of

    if text is None:
        return LAST
    try:
        return at_of(text, datetime.now().astimezone())
    except ValueError as error:
        raise UserError(str(error)) from None


def _show_changes(kind: str, rows: Sequence[Change]) -> None:
    if not rows:
        return
    several = len({row.partition for row in rows}) > 1
    cells = (
        (
            row.change, f"{row.partition} {row.name}" if several else row.name,
            "; ".join(_field(field, *pair) for field, pair in row.fields.items()),
        )
        for row in rows
    )  # fmt: skip
    console.print(table_of("", kind, "before → after", rows=cells))


def _field(name: str, before: Any, after: Any) -> str:
    if name in _RESOURCES and isinstance(before or {}, dict) and isinstance(after or {}, dict):
        one, other = before or {}, after or {}
        changed = [resource for resource in {**one, **other} if one.get(resource) != other.get(resource)]
        return ", ".join(
            f"{name} {resource} {_amount(resource, one)} → {_amount(resource, other)}" for resource in changed
        )
    return f"{name} {_shown(before)} → {_shown(after)}"


def _amount(resource: str, amounts: dict[str, int]) -> str:
    return amount(resource, amounts[resource]) if resource in amounts else "-"


def _shown(value: Any) -> str:
    if value is None or value in ({}, [], ""):
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return number(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
