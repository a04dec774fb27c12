"""`remuda rm forget RM`: delete all data of a resource manager.

With the key of the role admin, or without keys, this process deletes it. An operator's key has no access to the data:
rmproxy deletes it for a scheduler administrator.
"""

from __future__ import annotations

import json
import time

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_bus.status_codes import FORBIDDEN
from remuda_operations.queries import NoAnswer, RequestRefused
from remuda_operations.queries import core as queries
from remuda_replication.rms.forget import FORGETTING, Busy, kept_in_buckets, kept_in_streams
from remuda_replication.rms.forget import forget as remove

from ..client.connections import bus_at
from ..errors import UserError
from ..terminal import arguments, event_loop
from ..terminal.output import console
from .act import Attempt, act
from .asking import check_that_it_can_ask, have_typed

GONE = "Stopped"  # the state of an RM without heartbeats for too long, or that has deregistered


def forget(url: str, rm: str, yes: bool, although_registered: bool) -> None:
    arguments.rm_id(rm)
    check_that_it_can_ask(yes, f"rm forget {rm} deletes all data of {rm} and needs a confirmation")
    by_rmproxy = event_loop.run(lambda: is_key_of_an_operator(url, rm))
    if not by_rmproxy:
        event_loop.run(lambda: check_forgettable(url, rm, although_registered))
    console.print(f"This deletes all data of {rm}: log, snapshots, requests, callbacks, events, dead letters.")
    have_typed(rm, yes)
    if by_rmproxy:
        attempt = Attempt(rm, "forget_rm", force=although_registered)
        act(url, attempt, f"{rm} is forgotten", as_json=False, force="--although-registered")
        return
    event_loop.run(lambda: forget_rm(url, rm))
    console.print(f"{rm} is forgotten")


async def is_key_of_an_operator(url: str, rm_id: str) -> bool:
    """Returns whether the records of RMs are closed to this client."""
    async with bus_at(url) as bus:
        try:
            await bus.get(subjects.RMS.name, subjects.key_of(rm_id))
        except Refused as refused:
            return refused.code == FORBIDDEN
    return False


async def check_forgettable(url: str, rm_id: str, although_registered: bool) -> None:
    """Raises UserError if there is no data of the RM, or if it is registered and not Stopped."""
    async with bus_at(url) as bus:
        entry = await bus.get(subjects.RMS.name, subjects.key_of(rm_id))
        state = json.loads(entry.value).get("state", "") if entry is not None and entry.value else ""
        if not state and not await is_anything_stored(bus, rm_id):
            raise UserError(f"no data of a resource manager {rm_id!r}; `remuda status` lists them")
        if state in ("", "deregistered", FORGETTING) or although_registered:
            return
        try:
            found = (await queries.queues(bus, rm_id)).state
        except (RequestRefused, NoAnswer) as error:
            found = f"not known ({error})"
    if found != GONE:
        raise UserError(
            f"{rm_id} is {state}, and its state is {found}: expected deregistered or {GONE}; "
            "--although-registered overrides this"
        )


async def is_anything_stored(bus: Bus, rm_id: str) -> bool:
    """Returns whether there is data of an RM without a record: its deletion was interrupted, or it never registered."""
    for bucket, key in kept_in_buckets(rm_id):
        if await bus.get(bucket, key) is not None:
            return True
    for stream, subject in kept_in_streams(rm_id):
        if await bus.last_message(stream, subject) is not None:
            return True
    return False


async def forget_rm(url: str, rm_id: str) -> None:
    async with bus_at(url) as bus:
        try:
            with console.status(f"forgetting {rm_id}"):
                await remove(bus, rm_id, "remuda rm forget", lambda: time.time_ns() // 1_000_000)
        except Busy as error:
            raise UserError(f"{error}; run the command again to continue") from None
        except Refused as refusal:
            raise UserError(f"{rm_id} is registering: {refusal.reason}") from None
