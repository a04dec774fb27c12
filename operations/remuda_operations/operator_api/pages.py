"""Pages of answers of the core, as messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Refused, Unreadable
from remuda_operations.operator_api.messages import Row, filled
from remuda_operations.queries import core
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import admin_pb2 as admin


def rm_of(request: Any) -> str:
    """The field `rm`. Raises Refused unless it is the ID of one RM."""
    try:
        return subjects.check_rm_id(request.rm)
    except ValueError:
        raise Refused(f"rm is {shown(request.rm)}, expected the rmID of a resource manager") from None


async def ask(bus: Bus, kind: str, request: Any, **filters: Any) -> Row:
    """The answer of the core to one page of a query. Filters without a value are left out. Raises Refused, NoAnswer."""
    arguments = {name: value for name, value in filters.items() if value}
    page = request.page if "page" in request.DESCRIPTOR.fields_by_name else admin.PageRequest()
    if page.limit:
        arguments["limit"] = page.limit
    if page.page_token:
        arguments["after"] = decoded(page.page_token)
    if page.min_log_seq:
        arguments["min_log_seq"] = page.min_log_seq
    found: Row = await core.ask_core(bus, kind, dict[str, Any], rm=rm_of(request), **arguments)
    return found


def set_head(head: admin.StateHead, answer: Row) -> None:
    filled(head, answer)
    if answer.get("next") is not None:
        head.next_page_token = encoded(answer["next"])


async def add_rows(target: Any, rows: Iterable[Row]) -> None:
    """Add the rows to a repeated field. Lets other work go on: a page may have 1,000 rows. Raises Unreadable."""
    try:
        for number, row in enumerate(rows, 1):
            filled(target.add(), row)
            if number % limits.ROWS_WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"the answer of a core cannot be read: {error}") from error


def encoded(place: object) -> str:
    return json.dumps(place, separators=(",", ":"))


def decoded(token: str) -> object:
    """Raises Refused."""
    try:
        return json.loads(token)
    except (ValueError, RecursionError):
        raise Refused(f"page_token is {shown(token)}, expected the next_page_token of the page before") from None
