"""Object buckets in the layout that all NATS clients share: a stream OBJ_<bucket> with the chunks of an object on one
subject, and its metadata on another. The metadata makes the object visible.

Chunks are stored first. The chunks of an interrupted upload are never visible, and the next upload of the same owner
deletes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

from remuda_bus import limits
from remuda_bus.bus import Unreadable
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError, stored
from remuda_bus.nats.stream_reader import StreamReader
from remuda_bus.untrusted import field_of, json_object

DIGEST: Final = "SHA-256="


class ObjectBuckets:
    """The object buckets of a server. The verbs have the results and errors of `remuda_bus.bus.Bus`."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    async def put(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        await self._sweep(bucket, owner_of(name))
        before = await self._info(bucket, name)
        nuid = f"{name}.{uuid.uuid4().hex}"
        try:
            info = await self._upload(bucket, nuid, parts)
            about = json.dumps({"name": name, "bucket": bucket, "nuid": nuid, **info}).encode()
            await self._append(_meta(bucket, name), about, {"Nats-Rollup": "sub"})
        except BaseException:
            self._jetstream.connection.later(self._purge(bucket, _chunks(bucket, nuid)))
            raise
        if before is not None:
            await self._purge(bucket, _chunks(bucket, before["nuid"]))

    async def get(self, bucket: str, name: str) -> bytes | None:
        info = await self._info(bucket, name)
        if info is None or info.get("deleted"):
            return None
        subject, wanted = _chunks(bucket, info["nuid"]), field_of(info, "chunks", int, f"object {name} of {bucket}")
        chunks: list[bytes] = []
        reader = StreamReader(self._jetstream, _stream(bucket), subject, 0, b"")
        try:
            while len(chunks) < wanted:
                some = await reader.batch(timeout_s=limits.CHUNK_TIMEOUT_S)
                if not some:
                    raise Unreadable(f"object {name} of {bucket}: {len(chunks)} of {wanted} chunks are there")
                chunks += (message.payload for message in some)
        finally:
            await reader.close()
        payload = b"".join(chunks)
        if _digest(hashlib.sha256(payload)) != info.get("digest"):
            size = len(payload)
            raise Unreadable(f"object {name} of {bucket}: the digest of its {size} bytes is not that in its metadata")
        return payload

    async def names(self, bucket: str) -> list[str]:
        begin = _meta(bucket, "")
        names = (_name(one.removeprefix(begin)) for one in await self._subjects(bucket, f"{begin}>"))
        return sorted(name for name in names if name)

    async def delete(self, bucket: str, name: str) -> None:
        info = await self._info(bucket, name)
        await self._purge(bucket, _meta(bucket, name))
        if info is not None:
            await self._purge(bucket, _chunks(bucket, info["nuid"]))

    async def _upload(self, bucket: str, nuid: str, parts: AsyncIterable[bytes]) -> dict[str, Any]:
        digest, size, count = hashlib.sha256(), 0, 0
        async for chunk in in_chunks(parts):
            await self._append(_chunks(bucket, nuid), chunk)
            digest.update(chunk)
            size, count = size + len(chunk), count + 1
        return {"size": size, "chunks": count, "digest": _digest(digest), "mtime": "0001-01-01T00:00:00Z"}

    async def _sweep(self, bucket: str, owner: str) -> None:
        """Delete chunks of the owner that belong to no object. An owner uploads one object at a time, so such chunks
        are left from an interrupted upload."""
        infos = [await self._info(bucket, name) for name in await self.names(bucket) if owner_of(name) == owner]
        known = {_chunks(bucket, info["nuid"]) for info in infos if info is not None}
        for subject in await self._subjects(bucket, f"{_chunks(bucket, owner)}.>"):
            if subject not in known:
                await self._purge(bucket, subject)

    async def _append(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        await self._jetstream.append(subject, payload, headers, None, None, limits.CHUNK_TIMEOUT_S)

    async def _purge(self, bucket: str, subject: str) -> None:
        await self._jetstream.api(f"STREAM.PURGE.{_stream(bucket)}", {"filter": subject})

    async def _subjects(self, bucket: str, pattern: str) -> list[str]:
        info = await self._jetstream.api(f"STREAM.INFO.{_stream(bucket)}", {"subjects_filter": pattern})
        return sorted(info["state"].get("subjects") or ())

    async def _info(self, bucket: str, name: str) -> dict[str, Any] | None:
        try:
            answer = await self._jetstream.api(
                f"STREAM.MSG.GET.{_stream(bucket)}", {"last_by_subj": _meta(bucket, name)}
            )
        except JetStreamError as error:
            if error.err_code == NO_MESSAGE_FOUND:
                return None
            raise
        what = f"object {name} of {bucket}"
        about = json_object(stored(answer, _stream(bucket)).payload, what)
        field_of(about, "nuid", str, what)
        return about


async def in_chunks(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in chunks of limits.CHUNK_BYTES; the last one may be smaller."""
    waiting = bytearray()
    async for part in parts:
        waiting += part
        while len(waiting) >= limits.CHUNK_BYTES:
            yield bytes(waiting[: limits.CHUNK_BYTES])
            del waiting[: limits.CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)


def owner_of(name: str) -> str:
    """The owner of an object: its name up to the first '.'."""
    return name.partition(".")[0]


def _stream(bucket: str) -> str:
    return f"OBJ_{bucket}"


def _chunks(bucket: str, nuid: str) -> str:
    return f"$O.{bucket}.C.{nuid}"


def _meta(bucket: str, name: str) -> str:
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _name(encoded: str) -> str:
    """The name of an object from its subject; empty: not encoded by this scheduler."""
    try:
        return base64.urlsafe_b64decode(encoded).decode()
    except ValueError:
        return ""


def _digest(digest: Any) -> str:
    return DIGEST + base64.urlsafe_b64encode(digest.digest()).decode()
