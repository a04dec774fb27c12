"""Requests to JetStream's API, and the errors that its refusals mean. Knows nothing of the purpose of streams."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nats.aio.msg import Msg

from remuda_bus import limits, subjects
from remuda_bus.bus import (
    BusError,
    ConsumerState,
    Full,
    Headers,
    Message,
    NoResponders,
    Outgoing,
    Refused,
    StreamState,
    Unanswered,
    Unreadable,
)
from remuda_bus.health import PROCESS_HEALTH
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.patched_client import DESCRIPTION, SEQUENCE, STATUS, parse_headers
from remuda_bus.untrusted import Malformed, field_of, json_object, number_in

EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
BEFORE = "Nats-Last-Sequence"  # on each message of a chunk: the sequence of the message before it
ADDED = (SEQUENCE, BEFORE, "Nats-Stream", "Nats-Time-Stamp", "Nats-Num-Pending")  # by the server, to a direct get
NO_HEADERS: Headers = {}

# JetStream's own error codes.
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
NO_MESSAGE_FOUND = 10037
SEQUENCE_NOT_FOUND = 10043
STREAM_NAME_IN_USE = 10058
STORE_FAILED = 10077
DUPLICATE_IN_PROCESS = 10158
RESOURCES = {10023, 10028, 10047}  # of the account or the machine: memory, storage
TOO_MANY = 429
PER_SUBJECT = "maximum messages per subject exceeded"


DECLARE = "`remuda declare` makes missing streams"
NO_STREAM = f"no responders: the stream is missing or has no leader; {DECLARE}"


class JetStreamError(Refused):
    """A refusal of the API, with its own `err_code`."""

    def __init__(self, reason: str, code: int, err_code: int) -> None:
        super().__init__(reason, code)
        self.err_code = err_code


def failure(about: str, error: Mapping[str, Any]) -> BusError:
    """The error of the bus that an `error` in an API response means."""
    code, err_code = (error[one] if isinstance(error.get(one), int) else 0 for one in ("code", "err_code"))
    said = f"{about}: {error.get('description', 'refused')}"
    if "no space left" in said:
        PROCESS_HEALTH.storage_failed(said)
    if err_code == STORE_FAILED:
        # "maximum bytes exceeded", "maximum messages exceeded", "no space left on device"; else the disk has failed.
        if PER_SUBJECT in said:
            return Full(f"{said} (the limit of this subject, others have room)", of_subject=True)
        full = "maximum" in said or "no space" in said
        return Full(f"{said} (the limit of the whole stream)") if full else Unanswered(said)
    if err_code in RESOURCES or code == TOO_MANY:
        return Full(said)
    if err_code == STREAM_NOT_FOUND:
        return Unreadable(f"{said}; {DECLARE}")
    if code == 503 or err_code == DUPLICATE_IN_PROCESS:  # the first message of the two may be stored or lost
        return Unanswered(said)
    return JetStreamError(said, code, err_code)


class JetStream:
    """JetStream's API over a connection. Its verbs have the results and errors of `remuda_bus.bus.Bus`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def api(self, call: str, body: Mapping[str, Any] | None = None, timeout_s: float = 5.0) -> dict[str, Any]:
        """Call JetStream's API. `call`: the rest of the subject ("STREAM.INFO.LOG"). Raises Refused, Full, Unanswered,
        and Unreadable when there is no such stream."""
        request = json.dumps(body).encode() if body else b""
        reply = await self._ask(f"{self.connection.access.api}.{call}", request, timeout_s=timeout_s)
        answer = json_object(reply.data, f"the answer to {call}")
        if "error" in answer:
            raise failure(call, field_of(answer, "error", dict, f"the answer to {call}"))
        return answer

    async def _ask(self, subject: str, payload: bytes, headers: Headers | None = None, timeout_s: float = 5.0) -> Msg:
        """Send a request. Raises NoResponders with a text that says what is missing."""
        try:
            return await self.connection.ask(subject, payload, headers, timeout_s)
        except NoResponders:
            api = self.connection.access.api
            if not subject.startswith(f"{api}.") or subject.startswith(f"{api}.DIRECT.GET."):
                raise NoResponders(f"{subject}: {NO_STREAM}") from None
            raise NoResponders(f"{subject}: the NATS server has no JetStream, or not for this account") from None

    async def append(
        self,
        subject: str,
        payload: bytes,
        headers: Headers | None,
        msg_id: str | None,
        expect_last: int | None,
        timeout_s: float,
    ) -> int:
        sent = headers
        if msg_id is not None or expect_last is not None:
            sent = dict(headers) if headers else {}
            if msg_id is not None:
                sent[subjects.MSG_ID] = msg_id
            if expect_last is not None:
                sent[EXPECTED_LAST] = str(expect_last)
        reply = await self._ask(subject, payload, sent, timeout_s)
        return _sequence(subject, reply.data)

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float) -> int:
        if not 0 < len(messages) <= limits.BATCH_MESSAGES:
            raise ValueError(f"a batch of {len(messages)} messages, expected 1 to {limits.BATCH_MESSAGES}")
        if len(messages) == 1:
            only = messages[0]
            return await self.append(only.subject, only.payload, only.headers, None, None, timeout_s)
        await self.connection.until_up(timeout_s)
        batch = uuid.uuid4().hex
        for number, message in enumerate(messages[:-1], 1):
            headers = {**message.headers, BATCH_ID: batch, BATCH_SEQUENCE: str(number)}
            await self.connection.send(message.subject, message.payload, headers)
        last = messages[-1]
        headers = {**last.headers, BATCH_ID: batch, BATCH_SEQUENCE: str(len(messages)), BATCH_COMMIT: "1"}
        reply = await self._ask(last.subject, last.payload, headers, timeout_s)
        return _sequence(last.subject, reply.data)

    async def last_message(self, stream: str, subject: str) -> Message | None:
        body = json.dumps({"last_by_subj": subject}).encode()
        reply = await self._ask(f"{self.connection.access.api}.DIRECT.GET.{stream}", body)
        return _read(stream, subject, reply)

    async def behind(self, stream: str, subject: str, after: int) -> list[Message]:
        """The next messages on a subject, one chunk, from any server with a replica. A replica may lag behind."""
        which = {
            "seq": after + 1,
            "next_by_subj": subject,
            "batch": limits.FETCH_MESSAGES,
            "max_bytes": limits.FETCH_BYTES,
        }
        call = f"{self.connection.access.api}.DIRECT.GET.{stream}"
        *replies, end = await self.connection.ask_for_many(call, json.dumps(which).encode())
        chunk = [found for reply in replies if (found := _read(stream, subject, reply)) is not None]
        before = [0, *(message.seq for message in chunk)]
        linked = [number_in(reply.headers or NO_HEADERS, BEFORE, 0) for reply in (*replies, end)]
        if linked != before:
            raise Unanswered(f"{subject}: part of a chunk behind {after} has not come")
        return chunk

    async def next_of(self, stream: str, subject: str, after: int) -> list[Message]:
        """The next message on a subject ([]: none), from the stream's leader."""
        found = await self._get(stream, {"seq": after + 1, "next_by_subj": subject})
        return [] if found is None else [found]

    async def message_at(self, stream: str, seq: int) -> Message | None:
        return await self._get(stream, {"seq": seq})

    async def first_message(self, stream: str, subject: str) -> Message | None:
        return await self._get(stream, {"seq": 1, "next_by_subj": subject})

    async def last_sequence(self, stream: str) -> int:
        info = await self.api(f"STREAM.INFO.{stream}")
        return int(info["state"]["last_seq"])

    async def _get(self, stream: str, which: Mapping[str, Any]) -> Message | None:
        """A message from the stream's leader; a replica may lag behind."""
        try:
            answer = await self.api(f"STREAM.MSG.GET.{stream}", which)
        except JetStreamError as error:
            if error.err_code == NO_MESSAGE_FOUND:
                return None
            raise
        return stored(answer, stream)

    async def trim(self, stream: str, subject: str, below: int) -> None:
        if below > 0:
            await self.api(f"STREAM.PURGE.{stream}", {"filter": subject, "seq": below})

    async def delete_messages(self, stream: str, seqs: Sequence[int]) -> None:
        """Delete single messages. The space is freed at once, but not overwritten."""
        slots = asyncio.Semaphore(limits.DELETES_AT_ONCE)

        async def delete(seq: int) -> None:
            async with slots:
                try:
                    await self.api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq, "no_erase": True})
                except JetStreamError as error:
                    if error.err_code != SEQUENCE_NOT_FOUND and "no message found" not in error.reason:
                        raise

        await asyncio.gather(*(delete(seq) for seq in seqs))

    async def first_sequence_since(self, stream: str, subject: str, age_s: float) -> int | None:
        at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
        body = json.dumps({"next_by_subj": subject, "start_time": at}).encode()
        reply = await self._ask(f"{self.connection.access.api}.DIRECT.GET.{stream}", body)
        found = _found(stream, reply.headers or NO_HEADERS)
        return None if found is None else number_in(found, SEQUENCE)

    async def fullness(self, stream: str) -> float:
        info = await self.api(f"STREAM.INFO.{stream}")
        return int(info["state"]["bytes"]) / int(info["config"]["max_bytes"])

    async def stream_state(self, stream: str) -> StreamState:
        info = await self.api(f"STREAM.INFO.{stream}")
        state, what = info["state"], f"the state of {stream}"
        # Without a cluster, the answer names no leader: the server is the only one.
        cluster = info.get("cluster") or {"leader": "the only server"}
        replicas = [one for one in cluster.get("replicas", ()) if not one.get("observer")]
        return StreamState(
            messages=field_of(state, "messages", int, what),
            bytes=field_of(state, "bytes", int, what),
            max_bytes=field_of(info["config"], "max_bytes", int, what),
            last_seq=field_of(state, "last_seq", int, what),
            consumers=field_of(state, "consumer_count", int, what),
            leader=str(cluster.get("leader", "")),
            behind=sum(not one.get("current") or bool(one.get("offline")) for one in replicas),
            lag=max((int(one.get("lag", 0)) for one in replicas), default=0),
        )

    async def message_count(self, stream: str, subject: str) -> int:
        return sum((await self.per_subject(stream, subject)).values())

    async def per_subject(self, stream: str, subject: str) -> dict[str, int]:
        """The number of messages by subject. The server answers in pages."""
        found: dict[str, int] = {}
        while True:
            which = {"subjects_filter": subject, "offset": len(found)}
            info = await self.api(f"STREAM.INFO.{stream}", which)
            some: dict[str, int] = info["state"].get("subjects") or {}
            found |= some
            if not some or len(found) >= info.get("total", 0):
                return found

    async def acknowledged_sequence(self, stream: str, durable: str) -> int:
        state = await self.consumer_state(stream, durable)
        return state.acknowledged if state is not None else 0

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        try:
            info = await self.api(f"CONSUMER.INFO.{stream}.{durable}")
        except JetStreamError as error:
            if error.err_code == CONSUMER_NOT_FOUND:
                return None
            raise
        waiting = int(info["num_pending"]) + int(info["num_ack_pending"])
        return ConsumerState(int(info["ack_floor"]["stream_seq"]), waiting, info["config"].get("metadata") or {})


def stored(answer: Mapping[str, Any], stream: str) -> Message:
    """The message in an answer of the API. Raises Unreadable."""
    what = f"a message of {stream}"
    found = field_of(answer, "message", dict, what)
    try:
        headers, payload = (base64.b64decode(found.get(one, "")) for one in ("hdrs", "data"))
    except (ValueError, TypeError) as error:
        raise Malformed(f"{what}: not base64: {error}") from None
    return Message(
        field_of(found, "subject", str, what),
        payload,
        parse_headers(headers) if headers else NO_HEADERS,
        field_of(found, "seq", int, what),
    )


def _read(stream: str, subject: str, reply: Msg) -> Message | None:
    """The message in the reply to a direct get; None: there is no such message."""
    headers = _found(stream, reply.headers or NO_HEADERS)
    if headers is None:
        return None
    found, sequence = headers.pop("Nats-Subject", subject), number_in(headers, SEQUENCE)
    for name in ADDED:
        headers.pop(name, None)
    return Message(found, reply.data, headers or NO_HEADERS, sequence)


def _found(stream: str, answered: Headers) -> dict[str, str] | None:
    """The headers of a requested message; None: there is no such message. A stored message has a sequence, whatever
    status its sender wrote."""
    headers = dict(answered)
    if SEQUENCE in headers:
        return headers
    if headers.get(STATUS) == "404":
        return None
    raise Unreadable(f"{stream}: {headers.get(STATUS, 'no status')} {headers.get(DESCRIPTION, '')}")


def _sequence(subject: str, answer: bytes) -> int:
    """The stream sequence in an acknowledgement. Raises Unanswered for a malformed acknowledgement, after which it is
    unknown whether the message is stored."""
    what = f"{subject}: the acknowledgement"
    try:
        ack = json_object(answer, what)
        if "error" in ack:
            raise failure(subject, field_of(ack, "error", dict, what))
        sequence = int(field_of(ack, "seq", int, what))
    except Malformed as problem:
        raise Unanswered(str(problem)) from None
    PROCESS_HEALTH.storage_works()
    return sequence
