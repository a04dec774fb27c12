"""Requests to JetStream's API, and what its refusals mean. Knows nothing of what streams are for."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from remuda_bus import limits, subjects
from remuda_bus.bus import BusError, ConsumerState, Full, Headers, Message, Outgoing, Refused, Unanswered, Unreadable
from remuda_bus.nats.connection import Connection, FastClient

EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
NO_HEADERS: Headers = {}

# JetStream's own error codes.
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
NO_MESSAGE_FOUND = 10037
STREAM_NAME_IN_USE = 10058
STORE_FAILED = 10077
DUPLICATE_IN_PROCESS = 10158
RESOURCES = {10023, 10028, 10047}  # of the account or the machine: memory, storage
TOO_MANY = 429


class JetStreamError(Refused):
    """A refusal of the API, with its own `err_code`."""

    def __init__(self, reason: str, code: int, err_code: int) -> None:
        super().__init__(reason, code)
        self.err_code = err_code


def failure(about: str, error: Mapping[str, Any]) -> BusError:
    """What an `error` in an API response means for the caller."""
    code, err_code = int(error.get("code", 500)), int(error.get("err_code", 0))
    said = f"{about}: {error.get('description', 'refused')}"
    if err_code == STORE_FAILED:
        # "maximum bytes exceeded", "maximum messages exceeded", "no space left on device"; else the disk has failed.
        full = "maximum" in said or "no space" in said
        return Full(said) if full else Unanswered(said)
    if err_code in RESOURCES or code == TOO_MANY:
        return Full(said)
    if err_code == STREAM_NOT_FOUND:
        return Unreadable(said)
    if code == 503 or err_code == DUPLICATE_IN_PROCESS:  # the first of the two may be stored yet, or may be lost
        return Unanswered(said)
    return JetStreamError(said, code, err_code)


class JetStream:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def api(self, call: str, body: Mapping[str, Any] | None = None, timeout_s: float = 5.0) -> dict[str, Any]:
        """`call` is the rest of the subject: "STREAM.INFO.LOG". Raises Refused, Full, Unanswered, and Unreadable when
        there is no such stream."""
        request = json.dumps(body).encode() if body else b""
        reply = await self.connection.ask(f"{self.connection.access.api}.{call}", request, timeout_s=timeout_s)
        answer: dict[str, Any] = json.loads(reply.data)
        if "error" in answer:
            raise failure(call, answer["error"])
        return answer

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
        reply = await self.connection.ask(subject, payload, sent, timeout_s)
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
        reply = await self.connection.ask(last.subject, last.payload, headers, timeout_s)
        return _sequence(last.subject, reply.data)

    async def last(self, stream: str, subject: str) -> Message | None:
        body = json.dumps({"last_by_subj": subject}).encode()
        reply = await self.connection.ask(f"{self.connection.access.api}.DIRECT.GET.{stream}", body)
        headers = _found(stream, reply.headers or NO_HEADERS)
        if headers is None:
            return None
        found, sequence = headers.pop("Nats-Subject"), int(headers.pop("Nats-Sequence"))
        for name in ("Nats-Stream", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"):
            headers.pop(name, None)
        return Message(found, reply.data, headers or NO_HEADERS, sequence)

    async def message(self, stream: str, seq: int) -> Message | None:
        return await self._get(stream, {"seq": seq})

    async def first(self, stream: str, subject: str) -> Message | None:
        return await self._get(stream, {"seq": 1, "next_by_subj": subject})

    async def end(self, stream: str) -> int:
        info = await self.api(f"STREAM.INFO.{stream}")
        return int(info["state"]["last_seq"])

    async def _get(self, stream: str, which: Mapping[str, Any]) -> Message | None:
        """Asked of the stream's leader: a replica may be behind."""
        try:
            answer = await self.api(f"STREAM.MSG.GET.{stream}", which)
        except JetStreamError as error:
            if error.err_code == NO_MESSAGE_FOUND:
                return None
            raise
        found: dict[str, Any] = answer["message"]
        headers = FastClient._parse_header_lines(base64.b64decode(found.get("hdrs", "")))
        return Message(found["subject"], base64.b64decode(found.get("data", "")), headers, int(found["seq"]))

    async def trim(self, stream: str, subject: str, below: int) -> None:
        if below > 0:
            await self.api(f"STREAM.PURGE.{stream}", {"filter": subject, "seq": below})

    async def first_since(self, stream: str, subject: str, age_s: float) -> int | None:
        at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
        body = json.dumps({"next_by_subj": subject, "start_time": at}).encode()
        reply = await self.connection.ask(f"{self.connection.access.api}.DIRECT.GET.{stream}", body)
        found = _found(stream, reply.headers or NO_HEADERS)
        return None if found is None else int(found["Nats-Sequence"])

    async def fullness(self, stream: str) -> float:
        info = await self.api(f"STREAM.INFO.{stream}")
        return int(info["state"]["bytes"]) / int(info["config"]["max_bytes"])

    async def acknowledged(self, stream: str, durable: str) -> int:
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


def _found(stream: str, answered: Headers) -> dict[str, str] | None:
    """The headers of a message that was asked for; None: there is none."""
    headers = dict(answered)
    status = headers.get("Status")
    if status == "404":
        return None
    if status is not None:
        raise Unreadable(f"{stream}: {status} {headers.get('Description', '')}")
    return headers


def _sequence(subject: str, answer: bytes) -> int:
    ack: dict[str, Any] = json.loads(answer)
    if "error" in ack:
        raise failure(subject, ack["error"])
    return int(ack["seq"])
