"""The parts that all methods share: the caller, the rows of JSON answers as messages, and pages of them.

The fields of a row go to the fields of the message with the same names. Amounts (`{"vcore": 2000}`) become
`si.v1.Resource`. A null value, and a field that only one side knows, is left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused, Unreadable
from remuda_operations.operators import Operator
from remuda_operations.queries import core
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.si.v1 import si_pb2 as si

# Rows of a page that become messages before other work goes on: some milliseconds.
ROWS_WITHOUT_PAUSE = 50


def _none(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Caller:
    """The client in whose name a method is called. `operator`: the operator; None: the transport knows no operator, and
    the caller may not act. `reads_all`: the caller may read everything, as every operator may. `reads_rm`: whether the
    caller may read the state of an RM, as the RM itself may. A transport knows these from keys, certificates or
    accounts; a request never states them."""

    operator: Operator | None = None
    reads_all: bool = False
    reads_rm: Callable[[str], bool] = _none


READER = Caller(reads_all=True)


def rm_of(request: Any) -> str:
    """The rmID in the field `rm` of a request. Raises Refused unless it is a valid rmID."""
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
    """Fill the head of a response: the commit that the answer shows, and the token of the next page."""
    filled(head, answer)
    if answer.get("next") is not None:
        head.next_page_token = encoded(answer["next"])


async def add_rows(target: Any, rows: Iterable[Row]) -> None:
    """Add the rows to a repeated field. Pauses between rows for other work, because a page may have 1,000 rows. Raises
    Unreadable."""
    try:
        for number, row in enumerate(rows, 1):
            filled(target.add(), row)
            if number % ROWS_WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"the answer of a core cannot be read: {error}") from error


def encoded(place: object) -> str:
    """A place in an answer as a page token."""
    return json.dumps(place, separators=(",", ":"))


def decoded(token: str) -> object:
    """The place in a page token. Raises Refused."""
    try:
        return json.loads(token)
    except (ValueError, RecursionError):
        raise Refused(f"page_token is {shown(token)}, expected the next_page_token of the page before") from None


M = TypeVar("M", bound=Message)
Row = Mapping[str, Any]
RESOURCE = si.Resource.DESCRIPTOR
FIELD_CHANGE = admin.FieldChange.DESCRIPTOR


def filled(message: M, row: Row) -> M:
    """The message, with the values of the row. Raises TypeError or ValueError for values of another type."""
    for field in _fields(message.DESCRIPTOR):
        value = row.get(field.name)
        if value is not None:
            _set(message, field, value)
    return message


def amounts(resource: si.Resource) -> dict[str, int]:
    return {name: quantity.value for name, quantity in resource.resources.items()}


def set_amounts(resource: si.Resource, found: Mapping[str, int]) -> None:
    resource.SetInParent()
    for name, amount in found.items():
        resource.resources[name].value = amount


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    kind = field.message_type
    if kind is None:
        if field.is_repeated:
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, value)
    elif kind.GetOptions().map_entry:
        _set_map(getattr(message, field.name), kind, value)
    elif field.is_repeated:
        _add_all(getattr(message, field.name), value)
    else:
        _set_message(getattr(message, field.name), kind, value)


def _set_map(target: Any, entry: Descriptor, value: Row) -> None:
    if entry.fields_by_name["value"].message_type is None:
        target.update(value)
        return
    for key, one in value.items():
        _set_message(target[key], entry.fields_by_name["value"].message_type, one)


def _add_all(target: Any, rows: Iterable[Row]) -> None:
    for row in rows:
        filled(target.add(), row)


def _set_message(target: Any, kind: Descriptor, value: Row) -> None:
    target.SetInParent()
    if kind is RESOURCE:
        set_amounts(target, value)
    elif kind is FIELD_CHANGE:
        target.before, target.after = json.dumps(value.get("before")), json.dumps(value.get("after"))
    else:
        filled(target, value)


@cache
def _fields(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(descriptor.fields)
