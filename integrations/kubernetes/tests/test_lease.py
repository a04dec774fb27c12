"""The lease, on a scripted API server and a scripted clock."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Away, Conflict, NotFound
from remuda_kubernetes.shell.lease import Holder, LeaseLost


class Server:
    """One lease, with the API server's check of versions."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.now = 100.0
        self.is_away = False

    async def get(self, path: str, kind: type[Any]) -> Any:
        self.check()
        if self.lease is None:
            raise NotFound("no lease", 404)
        return msgspec.convert(self.lease, kind)

    async def call(self, verb: str, path: str, body: dict[str, Any]) -> bytes:
        self.check()
        if (verb == "POST") != (self.lease is None):
            raise Conflict("exists", 409)
        if self.lease is not None and body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("changed", 409)
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return b""

    def check(self) -> None:
        if self.is_away:
            raise Away("away", 0)

    def holder(self) -> Holder:
        return Holder(self, "remuda", "kubernetes", "here", lambda: self.now)  # type: ignore[arg-type]


async def test_one_of_two_holds_the_lease() -> None:
    server = Server()
    one, two = server.holder(), server.holder()
    assert await one.try_to_take()
    assert not await two.try_to_take()
    server.now += limits.LEASE_S - 1
    assert await one.try_to_take()
    server.now += 2
    assert not await two.try_to_take()


async def test_lease_that_is_not_renewed_is_taken_after_its_duration() -> None:
    server = Server()
    one, two = server.holder(), server.holder()
    assert await one.try_to_take()
    assert not await two.try_to_take()
    server.now += limits.LEASE_S
    assert await two.try_to_take()
    assert not await one.try_to_take()


async def test_lease_that_is_released_is_taken_at_once() -> None:
    server = Server()
    one, two = server.holder(), server.holder()
    assert await one.try_to_take()
    await two.release()
    assert not await two.try_to_take()
    await one.release()
    assert await two.try_to_take()


async def test_the_time_of_acquisition_stays_while_the_lease_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))
    monkeypatch.setattr("remuda_kubernetes.shell.lease.now_text", lambda: f"t{next(times)}")
    server = Server()
    one, two = server.holder(), server.holder()

    def written() -> tuple[str, str, int]:
        assert server.lease is not None
        spec = server.lease["spec"]
        return spec["acquireTime"], spec["renewTime"], spec["leaseTransitions"]

    seen = []
    for holder in (one, one, one):
        assert await holder.try_to_take()
        seen.append(written())
    await one.release()
    seen.append(written())
    assert await two.try_to_take() and await two.try_to_take()
    seen.append(written())
    assert seen == [("t0", "t0", 0), ("t0", "t1", 0), ("t0", "t2", 0), ("t0", "t3", 0), ("t4", "t5", 1)]


async def test_lease_that_cannot_be_renewed_in_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASE_TRY_EVERY_S", 0.0)
    server = Server()
    one = server.holder()
    await one.acquire()
    server.is_away = True
    server.now += limits.LEASE_RENEWED_WITHIN_S + 1
    with pytest.raises(LeaseLost, match="not renewed in time"):
        await one.hold()


async def test_lease_that_another_process_has_taken_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASE_TRY_EVERY_S", 0.0)
    server = Server()
    one, two = server.holder(), server.holder()
    await one.acquire()
    assert not await two.try_to_take()
    server.now += limits.LEASE_S
    await two.acquire()
    with pytest.raises(LeaseLost, match="another process"):
        await one.hold()
