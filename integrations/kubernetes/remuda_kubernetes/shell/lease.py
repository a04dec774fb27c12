"""The lease of a cluster (coordination.k8s.io): of several processes with one lease, one schedules.

The lease only saves useless work. A process that has lost it without noticing does no harm: its registration is
superseded, and the API server accepts one binding of a pod.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable

import structlog

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import ApiError, Client, Conflict, NotFound, now_text
from remuda_kubernetes.api.objects import Lease, LeaseSpec

log = structlog.get_logger()


class LeaseLost(Exception):
    """Another process has the lease, or it could not be renewed in time."""


class Holder:
    """Takes the lease `name` for this process, and renews it. `now`: in seconds."""

    def __init__(
        self, client: Client, namespace: str, name: str, instance: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._folder}/{name}"
        self._name = name
        self._me = f"{instance}_{uuid.uuid4().hex[:8]}"  # a process that starts again is another one
        self._now = now
        self._lease: Lease | None = None  # as it was read or written last
        self._seen_at = 0.0  # when it was first read like that
        self._renewed_at = 0.0

    async def acquire(self) -> None:
        """Wait for the lease. Errors of the API are logged and retried."""
        while True:
            try:
                if await self.try_to_take():
                    log.info("holds the lease of the cluster", lease=self._path)
                    return
            except ApiError as error:
                log.warning("the lease of the cluster cannot be read or written", lease=self._path, error=str(error))
            await asyncio.sleep(limits.LEASE_TRY_EVERY_S * random.uniform(0.8, 1.2))

    async def hold(self) -> None:
        """Renew the lease until cancelled. Raises LeaseLost."""
        while True:
            await asyncio.sleep(limits.LEASE_TRY_EVERY_S)
            try:
                if not await self.try_to_take():
                    raise LeaseLost(f"{self._path}: another process has taken it")
            except ApiError as error:
                if self._now() - self._renewed_at > limits.LEASE_RENEWED_WITHIN_S:
                    raise LeaseLost(f"{self._path}: not renewed in time: {error}") from None

    async def try_to_take(self) -> bool:
        """Take or renew the lease, if it is free, this process's, or not renewed for its duration. Raises ApiError."""
        began = self._now()
        lease = await self._read()
        if lease is None:
            self._lease = None
            body = {"metadata": {"name": self._name}, "spec": _spec(self._me, LeaseSpec())}
            return await self._write("POST", self._folder, body, began)
        if self._lease is None or self._lease.metadata.resource_version != lease.metadata.resource_version:
            self._lease, self._seen_at = lease, began
        spec = lease.spec
        duration_s = spec.lease_duration_seconds or limits.LEASE_S
        if spec.holder_identity not in ("", self._me) and began - self._seen_at < duration_s:
            return False
        return await self._write("PUT", self._path, self._body(self._me), began)

    async def release(self) -> None:
        """Free the lease, if this process holds it, so that another takes it at once."""
        try:
            lease = await self._read()
            if lease is not None and lease.spec.holder_identity == self._me:
                self._lease = lease
                await self._write("PUT", self._path, self._body(""), self._now())
        except ApiError as error:
            log.warning("the lease of the cluster was not released; it expires", lease=self._path, error=str(error))

    async def _read(self) -> Lease | None:
        try:
            return await self._client.get(self._path, Lease)
        except NotFound:
            return None

    def _body(self, holder: str) -> dict[str, object]:
        assert self._lease is not None
        version = self._lease.metadata.resource_version
        return {"metadata": {"name": self._name, "resourceVersion": version}, "spec": _spec(holder, self._lease.spec)}

    async def _write(self, verb: str, path: str, body: dict[str, object], began: float) -> bool:
        """False: another process was faster."""
        try:
            await self._client.call(verb, path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body})
        except Conflict:
            return False
        self._renewed_at = began
        return True


def _spec(holder: str, before: LeaseSpec) -> dict[str, object]:
    """The time of acquisition stays while a process renews the lease. Each other process that takes it is a transition;
    one that takes a new lease is none."""
    renewed = now_text()
    is_taken = holder not in ("", before.holder_identity)
    is_new = before.acquire_time is None
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": limits.LEASE_S if holder else 1,
        "renewTime": renewed,
        "acquireTime": renewed if is_taken or is_new else before.acquire_time,
        "leaseTransitions": before.lease_transitions + (is_taken and not is_new),
    }
