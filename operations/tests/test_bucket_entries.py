"""All current entries of a bucket, over NATS and in memory."""

from __future__ import annotations

import asyncio

from bus.tests.test_contract import Case, case  # noqa: F401 - a fixture
from remuda_bus import subjects


async def test_all_entries_of_a_bucket_at_once(case: Case) -> None:  # noqa: F811
    bucket = subjects.RMS.name
    assert await case.bus.entries(bucket) == []
    for key in ("b", "c", "a"):
        await case.bus.put(bucket, key, key.encode())
    await case.bus.put(bucket, "a", b"again")
    await case.bus.delete(bucket, "c")
    found = await case.other.entries(bucket)
    assert [(entry.key, entry.value) for entry in found] == [("a", b"again"), ("b", b"b")]
    await asyncio.gather(*(case.bus.put(bucket, f"k{number}", b"") for number in range(300)))
    assert len(await case.other.entries(bucket)) == 302
