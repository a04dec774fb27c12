"""Names on the command line: a resource manager that is left out, and a name that nothing has.

A command that takes RM may leave it out while one resource manager is registered. A failed command says which known
names resemble the ones it was given. Both ask the system that --nats selects; a command with right names asks nothing
more than its own questions, but for `explain` and `action`, whose next argument may be left out, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from typer.core import TyperCommand

from .. import limits
from ..errors import NoSystem, Undecided, UserError
from ..terminal import arguments

URL = "nats://127.0.0.1:4222"
# First arguments of `explain` that name no resource manager of a core.
_POD, _PELOTON = "pod", "peloton."
# By the parameter of a command: the query of a core, its rows, and the field with the name.
_LISTED = {"application": ("applications", "applications", "id"), "node": ("nodes", "nodes", "id")}


class Named(TyperCommand):
    """A command that says which known names resemble an unknown one, when it has failed."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (NoSystem, Undecided):
            raise
        except UserError as error:
            if hint := _hint(ctx.params):
                raise type(error)(f"{error}; {hint}") from None
            raise


class OfRm(Named):
    """A command whose first argument is an RM, which may be left out while one RM is registered.

    The RM is left out where a required argument is missing, or where the first of fewer arguments than there may be is
    no registered RM: an RM goes before another reading."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._rm = next(one for one in self.params if one.name == "rm")
        self._rm.required = False  # to the help, and never missing for the command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args = self._with_rm(ctx, list(args))
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def _with_rm(self, ctx: Any, args: list[str]) -> list[str]:
        options, surplus, _ = self.make_parser(ctx).parse_args(args=list(args))
        positional = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        given = [options[one.name] for one in positional if options.get(one.name) is not None]
        required = sum(one.required or one is self._rm for one in positional)
        if options.get("help") or surplus or len(given) == len(positional) or len(given) < required - 1:
            return args
        url = arguments.url(options.get("nats") or os.environ.get("REMUDA_NATS_URL") or URL)
        if len(given) < required:
            return [_only(_registered(url), url, ctx.command_path), *args]
        if not given or not _may_be_rm(given[0]):
            return args
        try:
            rms = _registered(url)
        except NoSystem:
            raise
        except UserError:  # who may not list RMs names one
            return args
        return [_only(rms, url, ctx.command_path, given[0]), *args] if rms and given[0] not in rms else args


def _may_be_rm(text: str) -> bool:
    """False: a pod, a cluster of Peloton, or a name that the check of arguments refuses."""
    if text == _POD or text.startswith(_PELOTON):
        return False
    try:
        arguments.rm_id(text)
    except UserError:
        return False
    return True


def _only(rms: list[str], url: str, command: str, given: str | None = None) -> str:
    """The RM that is meant where none is named. `given`: an argument that is no RM."""
    if len(rms) == 1:
        return rms[0]
    if not rms:
        raise UserError(
            f"no resource manager is registered at {url}; `remuda load --nats {url}` starts a simulated one"
        )
    named = ", ".join(rms[: limits.NAMED_RMS]) + (", ..." if len(rms) > limits.NAMED_RMS else "")
    several = f"{len(rms)} resource managers are registered: {named}"
    if given is None:
        raise UserError(f"{several}; name one of them, as in `{command} {rms[0]}`")
    hint = _resembling("resource manager", given, rms)
    raise UserError(
        f"no resource manager {arguments.quoted(given)} is registered, and {several}; "
        + (hint or f"name one of them, as in `{command} {rms[0]} {given}`")
    )


def _registered(url: str) -> list[str]:
    """Raises UserError."""
    from .connections import answered

    try:
        return answered(url, registered)
    except TimeoutError:
        raise UserError(
            f"{url}: the list of resource managers is not available; name the RM, before the other arguments"
        ) from None


async def registered(bus: Any) -> list[str]:
    """Returns the rmIDs of the resource managers that have not deregistered, sorted.

    With the key of an operator, which reads no bucket, a front end is asked. Raises BusError, TimeoutError.
    """
    import asyncio

    from remuda_bus.bus import BusError
    from remuda_bus.nats import Access
    from remuda_operations.queries.records import resource_managers

    async with asyncio.timeout(limits.COMPLETE_WITHIN_S):
        if Access.from_environment().seed is not None:
            with contextlib.suppress(BusError):
                return await _listed_by_front_end(bus)
        rows = await resource_managers(bus)
    return sorted(row["rm_id"] for row in rows if row.get("state") not in ("deregistered", "forgetting"))


async def _listed_by_front_end(bus: Any) -> list[str]:
    from remuda_bus import subjects
    from remuda_proto.remuda.v1 import admin_pb2 as admin

    method = subjects.operator_method("admin", "ListResourceManagers")
    answer = await bus.request(method, admin.ListResourceManagersRequest().SerializeToString())
    found = admin.ListResourceManagersResponse.FromString(answer.payload).resource_managers
    return sorted(one.rm_id for one in found if one.state not in ("deregistered", "forgetting"))


def _hint(given: dict[str, Any]) -> str:
    """A question for the first name that does not exist: "did you mean …?". Empty if all names exist, if no known name
    resembles it, or if no answer comes in time."""
    import asyncio

    from ..terminal import event_loop
    from .connections import bus_at

    async def ask() -> str:
        async with asyncio.timeout(limits.COMPLETE_WITHIN_S), bus_at(str(given.get("nats") or URL)) as bus:
            async for kind, name, known in _unknown(bus, given):
                return _resembling(kind, name, known)
        return ""

    if not any(given.get(one) for one in ("rm", "queue", *_LISTED)):
        return ""
    try:
        return event_loop.run(ask)
    except (UserError, TimeoutError, OSError):
        return ""


async def _unknown(bus: Any, given: dict[str, Any]) -> AsyncIterator[tuple[str, str, list[str]]]:
    """Kind and name of what does not exist, and the names of that kind that do."""
    from remuda_operations.queries.core import pages_of, queues
    from remuda_operations.queries.rows import Rows

    rms = await registered(bus)
    rm = given.get("rm")
    if rm is not None and rm not in rms:
        yield "resource manager", rm, rms
    if rm not in rms:
        return
    if path := given.get("queue"):
        partitions = (await queues(bus, rm)).partitions
        known = {queue.path for partition in partitions for queue in partition.queues.with_all_below()}
        if path.lower() not in known:
            yield "queue", path, sorted(known)
    for parameter, (kind, rows, field) in _LISTED.items():
        if name := given.get(parameter):
            listed = [str(row[field]) async for page in pages_of(bus, kind, Rows, rm=rm) for row in getattr(page, rows)]
            if name not in listed:
                yield parameter, name, listed


def _resembling(kind: str, name: str, known: list[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name[: limits.SHOWN_NAME_CHARACTERS], known, limits.SUGGESTED_NAMES)
    if not found:
        return ""
    return f"did you mean the {kind} {' or '.join(map(arguments.quoted, found))}?"
