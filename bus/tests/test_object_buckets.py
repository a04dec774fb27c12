"""Object buckets over NATS: interrupted uploads, and damaged objects."""

from __future__ import annotations

from collections.abc import AsyncIterator

import nats
import pytest

from remuda_bus import subjects
from remuda_bus.bus import Unreadable
from remuda_bus.nats import NatsBus

BUCKET = subjects.SNAPSHOTS.name


async def parts_of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def chunks(bus: NatsBus) -> list[str]:
    return await bus._objects._subjects(BUCKET, f"$O.{BUCKET}.C.>")


async def test_the_next_upload_deletes_the_leftovers_of_an_interrupted_one(bus: NatsBus) -> None:
    await bus.put_object(BUCKET, "rm-1.5", parts_of(b"kept"))
    await bus.put_object(BUCKET, "rm-2.5", parts_of(b"another's"))
    for left in ("rm-1.9.abc", "rm-2.9.abc"):
        await bus._jetstream.append(f"$O.{BUCKET}.C.{left}", b"left", None, None, None, 5.0)
    await bus.put_object(BUCKET, "rm-1.10", parts_of(b"new"))
    of = [subject.split(".C.")[1].rpartition(".")[0] for subject in await chunks(bus)]
    assert sorted(of) == ["rm-1.10", "rm-1.5", "rm-2.5", "rm-2.9"]
    assert await bus.get_object(BUCKET, "rm-1.5") == b"kept"


async def test_deleted_and_replaced_objects_leave_no_chunks(bus: NatsBus) -> None:
    await bus.put_object(BUCKET, "rm-1.5", parts_of(b"x" * 300_000))
    await bus.put_object(BUCKET, "rm-1.5", parts_of(b"shorter"))
    assert len(await chunks(bus)) == 1
    await bus.delete_object(BUCKET, "rm-1.5")
    state = (await bus._jetstream.api(f"STREAM.INFO.OBJ_{BUCKET}"))["state"]
    assert state["messages"] == 0


async def test_a_damaged_object_is_unreadable(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_bus.limits.CHUNK_TIMEOUT_S", 0.2)
    await bus.put_object(BUCKET, "rm-1.5", parts_of(b"x" * 300_000))
    (subject,) = await chunks(bus)
    newest = await bus.last_message(f"OBJ_{BUCKET}", subject)
    assert newest is not None
    await bus._jetstream.api(f"STREAM.MSG.DELETE.OBJ_{BUCKET}", {"seq": newest.seq})
    with pytest.raises(Unreadable, match=r"rm-1\.5.* 2 of 3 chunks"):
        await bus.get_object(BUCKET, "rm-1.5")
    await bus._jetstream.append(subject, b"y" * len(newest.payload), None, None, None, 5.0)
    with pytest.raises(Unreadable, match="the digest of its"):
        await bus.get_object(BUCKET, "rm-1.5")


async def test_other_clients_share_the_layout(bus: NatsBus) -> None:
    client = await nats.connect(bus._connection.url)
    try:
        store = await client.jetstream().object_store(BUCKET)
        await bus.put_object(BUCKET, "rm-1.5", parts_of(b"x" * 300_000))
        assert (await store.get("rm-1.5")).data == b"x" * 300_000
        assert [info.name for info in await store.list()] == ["rm-1.5"]
        await store.put("theirs", b"hello")
        assert await bus.get_object(BUCKET, "theirs") == b"hello"
        await store.delete("theirs")
        assert await bus.get_object(BUCKET, "theirs") is None
    finally:
        await client.close()
