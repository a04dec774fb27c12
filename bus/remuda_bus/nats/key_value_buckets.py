"""Key-value buckets: streams KV_<bucket> that keep the last message of each subject $KV.<bucket>.<key>.

The last message of a deleted or expired key is a marker. Markers are internal to this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Entry, Headers, Message, Refused, Unanswered
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError, stored
from remuda_bus.nats.ordered_consumer import NANOSECOND, OrderedConsumer
from remuda_bus.retry import Backoff, retry

log = structlog.get_logger()

OPERATION = "KV-Operation"
MARKER = "Nats-Marker-Reason"  # the server writes it when an entry has expired


class KeyValueBuckets:
    """The key-value buckets of a server. The verbs have the results and errors of `remuda_bus.bus.Bus`."""

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

    async def entries(self, bucket: str) -> list[Entry]:
        """All current entries, by key. Raises Unanswered when they are not complete within ALL_ENTRIES_WITHIN_S."""
        found: dict[str, Entry] = {}
        try:
            async with asyncio.timeout(limits.ALL_ENTRIES_WITHIN_S):
                once = {"inactive_threshold": int(limits.READ_ONCE_EXPIRES_S * NANOSECOND)}
                opening = partial(self._opened, bucket, once)
                consumer = await retry(opening, limits.READ_ONCE_RETRY, on=Unanswered)
                try:
                    while consumer.messages or consumer.pending:
                        if not consumer.messages:
                            if consumer.broken is not None:
                                raise Unanswered(f"bucket {bucket}: {consumer.broken}")
                            await consumer.wait()
                            continue
                        entry = _entry(bucket, consumer.take(1, 0)[0])
                        found[entry.key] = entry
                finally:
                    consumer.close()
        except TimeoutError:
            raise Unanswered(f"bucket {bucket}: not read within {limits.ALL_ENTRIES_WITHIN_S:g} s") from None
        return [found[key] for key in sorted(found) if found[key].value is not None]

    async def watch(self, bucket: str) -> AsyncIterator[Entry]:
        """Yield every current entry, then every change, without end.

        A broken consumer is replaced by a new one, which starts with all current entries. Entries that were deleted in
        between are yielded as deleted."""
        known: dict[str, int] = {}
        while True:
            consumer = await self._open(bucket)
            listing: dict[str, int] | None = {}
            try:
                while consumer.broken is None or consumer.messages:
                    if listing is not None and not consumer.messages and consumer.pending == 0:
                        gone = {key: known[key] for key in known if key not in listing}
                        listing = None
                        for key, revision in gone.items():
                            del known[key]
                            yield Entry(key, None, revision)
                    if not consumer.messages:
                        await consumer.wait()
                        continue
                    entry = _entry(bucket, consumer.take(1, 0)[0])
                    if listing is not None and entry.value is not None:
                        listing[entry.key] = entry.revision
                    if entry.value is not None:
                        known[entry.key] = entry.revision
                    elif known.pop(entry.key, None) is None:
                        continue
                    yield entry
            finally:
                consumer.close()
            log.info("watching anew", bucket=bucket, because=consumer.broken)

    async def _open(self, bucket: str) -> OrderedConsumer:
        backoff = Backoff(limits.OPEN_RETRY)
        while True:
            try:
                return await self._opened(bucket, {})
            except Unanswered as error:
                log.warning("cannot watch yet", bucket=bucket, error=str(error))
                await backoff.pause()

    async def _opened(self, bucket: str, settings: Mapping[str, int]) -> OrderedConsumer:
        await self._jetstream.connection.until_up()
        config = {"deliver_policy": "last_per_subject", "filter_subject": f"$KV.{bucket}.>", **settings}
        consumer = OrderedConsumer(self._jetstream, f"KV_{bucket}", config)
        await consumer.open()
        return consumer

    async def _append(self, bucket: str, key: str, value: bytes, headers: Headers | None, revision: int | None) -> int:
        return await self._jetstream.append(
            f"$KV.{bucket}.{subjects.check_key(key)}", value, headers, None, revision, 5.0
        )

    async def _last(self, bucket: str, key: str) -> Entry | None:
        """The last message of the key, even if it is a marker. Read from the stream's leader, not from a replica."""
        try:
            answer = await self._jetstream.api(
                f"STREAM.MSG.GET.KV_{bucket}", {"last_by_subj": f"$KV.{bucket}.{subjects.check_key(key)}"}
            )
        except JetStreamError as error:
            if error.err_code == NO_MESSAGE_FOUND:
                return None
            raise
        return replace(_entry(bucket, stored(answer, bucket)), key=key)


def _entry(bucket: str, message: Message) -> Entry:
    gone = OPERATION in message.headers or MARKER in message.headers
    return Entry(message.subject[len(f"$KV.{bucket}.") :], None if gone else message.payload, message.seq)
