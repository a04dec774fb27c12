"""Key-value buckets: streams KV_<bucket> that keep the last message of each subject $KV.<bucket>.<key>.

A deleted or expired key is a last message that says so; nobody outside this file sees those.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import structlog

from remuda_bus import limits
from remuda_bus.bus import Entry, Headers, Message, Refused, Unanswered
from remuda_bus.nats.feed import Feed
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError

log = structlog.get_logger()

OPERATION = "KV-Operation"
MARKER = "Nats-Marker-Reason"  # put there by the server when an entry has expired


class Buckets:
    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    async def get(self, bucket: str, key: str) -> Entry | None:
        entry = await self._last(bucket, key)
        return None if entry is None or entry.value is None else entry

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None) -> int:
        try:
            return await self._append(bucket, key, value, None, revision)
        except Refused:
            if revision != 0:
                raise
            gone = await self._last(bucket, key)
            if gone is None or gone.value is not None:
                raise
            return await self._append(bucket, key, value, None, gone.revision)

    async def delete(self, bucket: str, key: str, revision: int | None) -> None:
        await self._append(bucket, key, b"", {OPERATION: "DEL"}, revision)

    async def watch(self, bucket: str) -> AsyncIterator[Entry]:
        """A broken feed is replaced by a new one, which starts with all current entries: those that are gone meanwhile
        are told as gone."""
        known: dict[str, int] = {}
        while True:
            feed = await self._open(bucket)
            listing: dict[str, int] | None = {}
            try:
                while feed.broken is None or feed.messages:
                    if listing is not None and not feed.messages and feed.pending == 0:
                        gone = {key: known[key] for key in known if key not in listing}
                        listing = None
                        for key, revision in gone.items():
                            del known[key]
                            yield Entry(key, None, revision)
                    if not feed.messages:
                        await feed.wait()
                        continue
                    entry = _entry(bucket, feed.take(1, 0)[0])
                    if listing is not None and entry.value is not None:
                        listing[entry.key] = entry.revision
                    if entry.value is not None:
                        known[entry.key] = entry.revision
                    elif known.pop(entry.key, None) is None:
                        continue
                    yield entry
            finally:
                feed.close()
            log.info("watching anew", bucket=bucket, because=feed.broken)

    async def _open(self, bucket: str) -> Feed:
        while True:
            await self._jetstream.connection.until_up()
            config = {"deliver_policy": "last_per_subject", "filter_subject": f"$KV.{bucket}.>"}
            feed = Feed(self._jetstream, f"KV_{bucket}", config)
            try:
                await feed.open()
            except Unanswered as error:
                log.warning("cannot watch yet", bucket=bucket, error=str(error))
                await asyncio.sleep(limits.RETRY_S)
            else:
                return feed

    async def _append(self, bucket: str, key: str, value: bytes, headers: Headers | None, revision: int | None) -> int:
        return await self._jetstream.append(f"$KV.{bucket}.{key}", value, headers, None, revision, 5.0)

    async def _last(self, bucket: str, key: str) -> Entry | None:
        """The last message of the key, also when it says that the key is gone. Asked of the stream's leader, not of a
        replica."""
        try:
            answer = await self._jetstream.api(f"STREAM.MSG.GET.KV_{bucket}", {"last_by_subj": f"$KV.{bucket}.{key}"})
        except JetStreamError as error:
            if error.err_code == NO_MESSAGE_FOUND:
                return None
            raise
        message: dict[str, Any] = answer["message"]
        headers = base64.b64decode(message.get("hdrs", ""))
        gone = OPERATION.encode() in headers or MARKER.encode() in headers
        return Entry(key, None if gone else base64.b64decode(message.get("data", "")), int(message["seq"]))


def _entry(bucket: str, message: Message) -> Entry:
    gone = OPERATION in message.headers or MARKER in message.headers
    return Entry(message.subject[len(f"$KV.{bucket}.") :], None if gone else message.payload, message.seq)
