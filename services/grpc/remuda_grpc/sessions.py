"""The RMs that are connected to this front end.

Several front ends may run. An RM belongs to the one that has claimed it last, in the bucket FRONT_ENDS: two that read
the callbacks of one RM would each get a part. Every front end watches the bucket.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import grpc
import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Entry, Headers, NoResponders
from remuda_bus.retry import retry
from remuda_bus.untrusted import field_of, json_object, number_in
from remuda_grpc import limits
from remuda_grpc.session import CallbackStream, RmSession
from remuda_grpc.status import Failure, failure_of, report_requested, superseded
from remuda_sdk.resource_manager.callbacks import Place

log = structlog.get_logger()

# The state of an RM in its record, after an operator has removed its log.
REPORT_REQUESTED: Final = "report_wanted"


class Sessions:
    """The sessions of all RMs that this process connects. `instance`: the name of this process in claims."""

    def __init__(self, bus: Bus, instance: str) -> None:
        self._bus = bus
        self._instance = instance
        self._sessions: dict[str, RmSession] = {}
        self._claims: dict[str, int] = {}  # rmID -> revision of this front end's claim
        # Weak: clients may name any number of RMs that do not exist.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closing: set[asyncio.Task[None]] = set()
        self._token = secrets.token_hex(8)

    def __len__(self) -> int:
        return len(self._sessions)

    async def run(self) -> None:
        """Gives up the RMs that another front end claims, and those that have to report. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_claims())
            tasks.create_task(self._watch_records())

    async def _watch_claims(self) -> None:
        async for entry in self._bus.watch(subjects.FRONT_ENDS.name):
            rm_id = subjects.rm_of_key(entry.key)
            if entry.value is not None and entry.revision > self._claims.get(rm_id, entry.revision):
                await self._leave(rm_id)

    async def _watch_records(self) -> None:
        async for entry in self._bus.watch(subjects.RMS.name):
            session = self._sessions.get(subjects.rm_of_key(entry.key))
            if session is not None and _record_in(entry).get("state") == REPORT_REQUESTED:
                log.info("an RM has to report", rm=session.rm_id)
                session.fail(report_requested(session.rm_id))

    async def close(self) -> None:
        """Ends all streams, so that clients go to another front end."""
        leaving = Failure(grpc.StatusCode.UNAVAILABLE, "STOPPING", "this front end stops, connect again")
        for rm_id, session in list(self._sessions.items()):
            session.fail(leaving)
            await self._close(rm_id, session)

    # Registration

    async def register(self, rm_id: str, payload: bytes, headers: Headers, peer: str) -> int:
        """Registers an RM and returns the number of the registration. Raises Failure."""
        session = self._sessions.get(rm_id)
        send = partial(self._bus.request, subjects.register(rm_id), payload, headers, limits.REGISTER_WITHIN_S)
        try:
            with session.registering() if session is not None else nullcontext():
                reply = await retry(send, limits.RESPONDERS_RETRY, on=NoResponders)
                number = number_in(reply.headers, subjects.REGISTRATION)
                if session is not None:
                    session.end_streams_of_others(peer)
                    await session.registered(number)
        except BusError as error:
            raise failure_of(error) from None
        log.info("registered", rm=rm_id, registration=number)
        return number

    # Streams

    async def open(self, rm_id: str, kind: str, peer: str, stated: int, after: Place) -> CallbackStream:
        """Opens the stream of one kind of callbacks. `stated`: the number of the registration that the client means;
        0: the newest. Raises Failure FAILED_PRECONDITION when the RM is not registered.
        """
        async with self._lock(rm_id):
            try:
                registration = await self._registration(rm_id)
                if stated and stated != registration:
                    raise superseded(f"registration {stated} of rmID {rm_id!r}: the RM has registration {registration}")
                session = self._sessions.get(rm_id)
                if session is None or session.failure is not None:
                    if session is not None:
                        await self._close(rm_id, session)
                    await self._claim(rm_id)
                    session = self._sessions[rm_id] = RmSession(self._bus, rm_id, registration, self._on_idle)
                else:
                    await session.registered(registration)
            except BusError as error:
                raise failure_of(error) from None
            return session.attach(kind, peer, after)

    def _lock(self, rm_id: str) -> asyncio.Lock:
        """Streams of an RM are opened one after the other."""
        return self._locks.setdefault(rm_id, asyncio.Lock())

    async def _registration(self, rm_id: str) -> int:
        entry = await self._bus.get(subjects.RMS.name, subjects.key_of(rm_id))
        record = {} if entry is None else _record_in(entry)
        if record.get("state") == REPORT_REQUESTED:
            raise report_requested(rm_id)
        if record.get("state") != "registered":
            reason = f"rmID {rm_id!r} is not registered: call RegisterResourceManager first"
            raise Failure(grpc.StatusCode.FAILED_PRECONDITION, "NOT_REGISTERED", reason, "rmID")
        number: int = field_of(record, "registration", int, entry.key if entry is not None else "")
        return number

    async def _claim(self, rm_id: str) -> None:
        bucket, key = subjects.FRONT_ENDS.name, subjects.key_of(rm_id)
        before = await self._bus.get(bucket, key)
        claim = json.dumps({"instance": self._instance, "token": self._token}).encode()
        self._claims[rm_id] = await self._bus.put(bucket, key, claim)
        if before is not None and before.value is not None and self._is_of_another(before):
            log.info("taking an RM over from another front end", rm=rm_id)
            await asyncio.sleep(limits.HANDOVER_S)
        # The watch may have shown a later claim before this one was known here.
        now = await self._bus.get(bucket, key)
        if now is None or now.revision != self._claims.get(rm_id):
            self._claims.pop(rm_id, None)
            raise superseded(f"rmID {rm_id!r} has connected to another front end meanwhile")

    def _is_of_another(self, entry: Entry) -> bool:
        try:
            return json_object(entry.value or b"", entry.key).get("token") != self._token
        except BusError:
            return True

    async def _leave(self, rm_id: str) -> None:
        self._claims.pop(rm_id, None)
        session = self._sessions.get(rm_id)
        if session is not None:
            log.info("another front end has taken an RM over", rm=rm_id)
            session.fail(superseded(f"rmID {rm_id!r} has connected to another front end"))
            await self._close(rm_id, session)

    def _on_idle(self, session: RmSession) -> None:
        task = asyncio.get_running_loop().create_task(self._end_idle(session), name=f"end of {session.rm_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _end_idle(self, session: RmSession) -> None:
        async with self._lock(session.rm_id):
            if session.is_idle and self._sessions.get(session.rm_id) is session:
                await self._close(session.rm_id, session)

    async def _close(self, rm_id: str, session: RmSession) -> None:
        if self._sessions.get(rm_id) is session:
            del self._sessions[rm_id]
        await session.close()
        revision = self._claims.pop(rm_id, None)
        if revision is not None:
            with suppress(BusError):  # another front end has claimed the RM, or will have to wait a second
                await self._bus.delete(subjects.FRONT_ENDS.name, subjects.key_of(rm_id), revision)


def _record_in(entry: Entry) -> dict[str, Any]:
    """The record of an RM; empty if it was deleted."""
    return {} if entry.value is None else json_object(entry.value, entry.key)
