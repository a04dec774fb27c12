"""`remuda dump`: the states of the scheduler and of the RM in one JSON document (000, GetStateDump)."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from remuda_bus import subjects
from remuda_bus.bus import Bus, NoResponders, Refused, Unanswered
from remuda_operations.queries.core import ask_core, pages_of
from remuda_operations.queries.rows import Rows

from .. import limits
from ..client.connections import bus_at
from ..terminal import event_loop

# By the query: the list of its answer.
LISTS: Final = {
    "queues": "queues",
    "nodes": "nodes",
    "applications": "applications",
    "rejections": "rejections",
    "allocations": "allocations",
    "usage": "usage",
    "explain": "asks",
}


def dump(url: str, rm: str) -> None:
    """Each list shows the state at its own time."""
    print(json.dumps(event_loop.run(lambda: state_of(url, rm)), indent=2))


async def state_of(url: str, rm: str) -> dict[str, Any]:
    async with bus_at(url) as bus:
        scheduler: dict[str, Any] = {"stats": await ask_core(bus, "stats", dict[str, Any], rm=rm)}
        for kind, name in LISTS.items():
            scheduler[name] = [row async for page in pages_of(bus, kind, Rows, rm=rm) for row in getattr(page, name)]
        own, problem = await _own_state(bus, rm)
    found = {"rm": rm, "at_ms": int(time.time() * 1_000), "scheduler": scheduler, "resource_manager": own}
    return {**found, "problem": problem} if problem else found


async def _own_state(bus: Bus, rm: str) -> tuple[Any, str]:
    """The state of the RM: JSON, or the text as it is; and why there is nothing."""
    try:
        reply = await bus.request(subjects.question(rm, "state_dump"), timeout_s=limits.DUMP_WITHIN_S)
    except Refused as refused:
        return None, f"the RM refuses: {refused.reason}"
    except NoResponders:
        return None, "the RM is not connected, or gives no dump"
    except Unanswered:
        return None, f"the RM has not answered within {limits.DUMP_WITHIN_S:g} s"
    text = reply.payload.decode(errors="replace")
    try:
        return json.loads(text), ""
    except ValueError:
        return text, ""
