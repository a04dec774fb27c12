"""Answers the query `whatif`: the smallest changes that would let an ask run (`remuda_core.what_if`). Played like a
preview: in forked children, one at a time in a process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from remuda_bus.bus import Refused
from remuda_bus.status_codes import NOT_FOUND
from remuda_proto.bounds import shown
from remuda_replication.child import beside

from .. import limits
from ..core import Core
from ..decide.names import plain
from ..what_if.search import Change, search
from ..what_if.trial import Ask, GivenUp
from . import views
from .previews import Forking, Previews, Request, copy_of, yield_to_others


async def answer(
    previews: Previews, forked: Forking, core: Core, request: Request, now_ms: int, in_child: bool
) -> bytes:
    """The changes as JSON. Raises Refused."""
    ask = _pending(core, request)
    job = _in_child if in_child else _in_process
    return await previews.play(forked, core, partial(job, ask=ask, now_ms=now_ms), in_child)


def _pending(core: Core, request: Request) -> Ask:
    """The ask that the request is about. Raises Refused if it is not pending."""
    application, key, partition = (request.get(name) or "" for name in ("application", "key", "partition"))
    if not isinstance(partition, str):
        raise Refused(f"partition is {shown(partition)}, expected a text")
    for name, value in (("application", application), ("key", key)):
        if not isinstance(value, str) or not value:
            raise Refused(f"{name} is {shown(value)}, expected the {name} of a pending ask")
    for found in core.state.partitions.values():
        its = found.applications.get(application)
        if its is not None and key in its.asks and partition.strip().lower() in ("", plain(found.name)):
            return Ask(found.name, application, key)
    raise Refused(f"application {application[:64]!r} has no pending ask {key[:64]!r}", NOT_FOUND)


def _in_child(core: Core, ask: Ask, now_ms: int) -> Iterator[bytes]:
    yield_to_others()
    until = time.monotonic() + limits.WHAT_IF_WITHIN_S

    def on_copy(work: Callable[[Core], bytes]) -> bytes:
        if time.monotonic() > until:
            raise GivenUp
        return beside(lambda: work(core), limits.PREVIEW_WITHIN_S)

    yield _found(core, ask, on_copy, now_ms)


def _in_process(core: Core, ask: Ask, now_ms: int) -> Iterator[bytes]:
    """The same on copies in this process, for a process that may not fork."""
    yield _found(core, ask, lambda work: work(copy_of(core)), now_ms)


def _found(core: Core, ask: Ask, on_copy: Callable[[Callable[[Core], bytes]], bytes], now_ms: int) -> bytes:
    found = search(core, ask, on_copy, now_ms)
    _, pending = ask.of(core)
    return msgspec.json.encode(
        {
            "rm": core.state.rm_id,
            "state": core.state.rm_state,
            "at_ms": core.state.now_ms,
            "partition": plain(ask.partition),
            "application": ask.application,
            "queue": pending.application.queue.path,
            "key": ask.key,
            "resource": pending.ask.resource,
            "runs": found.runs,
            "constraints": [views.constraint(one, 0) for one in found.constraints],
            "changes": [_row(change) for change in found.changes],
            "trials": found.trials,
            "complete": found.complete,
            "passes": limits.WHAT_IF_PASSES,
        }
    )


def _row(change: Change) -> dict[str, object]:
    steps = [{**msgspec.to_builtins(step), "text": str(step)} for step in change.steps]
    return {"steps": steps, "exact": change.exact, "tried": change.tried, "of": change.of}
