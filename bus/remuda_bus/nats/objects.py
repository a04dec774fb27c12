"""Object buckets in the layout all NATS clients know: a stream OBJ_<bucket> with the chunks of an object on one
subject, and a message about it, which makes it visible, on another.

Chunks come first: what an upload that died has left is never visible, and goes with the next upload of the same owner.
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
from remuda_bus.nats.feed import StreamReader
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError

DIGEST: Final = "SHA-256="


class Objects:
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
        subject, wanted = _chunks(bucket, info["nuid"]), int(info["chunks"])
        chunks: list[bytes] = []
        reader = StreamReader(self._jetstream, _stream(bucket), subject, 0, b"")
        try:
            while len(chunks) < wanted:
                some = await reader.batch(timeout_s=limits.CHUNK_WITHIN_S)
                if not some:
                    raise Unreadable(f"object {name} of {bucket}: {len(chunks)} of {wanted} chunks are there")
                chunks += (message.payload for message in some)
        finally:
            await reader.close()
        payload = b"".join(chunks)
        if _digest(hashlib.sha256(payload)) != info["digest"]:
            raise Unreadable(f"object {name} of {bucket}: its {len(payload)} bytes have another digest than it says")
        return payload

    async def names(self, bucket: str) -> list[str]:
        begin = _meta(bucket, "")
        return sorted(
            base64.urlsafe_b64decode(subject.removeprefix(begin)).decode()
            for subject in await self._subjects(bucket, f"{begin}>")
        )

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
        """An owner uploads one object at a time: chunks that belong to no object are of an upload that died."""
        infos = [await self._info(bucket, name) for name in await self.names(bucket) if owner_of(name) == owner]
        known = {_chunks(bucket, info["nuid"]) for info in infos if info is not None}
        for subject in await self._subjects(bucket, f"{_chunks(bucket, owner)}.>"):
            if subject not in known:
                await self._purge(bucket, subject)

    async def _append(self, subject: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        await self._jetstream.append(subject, payload, headers, None, None, limits.CHUNK_WITHIN_S)

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
        about: dict[str, Any] = json.loads(base64.b64decode(answer["message"]["data"]))
        return about


async def in_chunks(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same bytes, cut anew."""
    waiting = bytearray()
    async for part in parts:
        waiting += part
        while len(waiting) >= limits.CHUNK_BYTES:
            yield bytes(waiting[: limits.CHUNK_BYTES])
            del waiting[: limits.CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)


def owner_of(name: str) -> str:
    return name.partition(".")[0]


def _stream(bucket: str) -> str:
    return f"OBJ_{bucket}"


def _chunks(bucket: str, nuid: str) -> str:
    return f"$O.{bucket}.C.{nuid}"


def _meta(bucket: str, name: str) -> str:
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _digest(digest: Any) -> str:
    return DIGEST + base64.urlsafe_b64encode(digest.digest()).decode()
