"""Asks the configuration service for the configuration of an RM: a few questions at a time, and of each RM one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_proto.bounds import joined
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.inbound.translate import InvalidRequest
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.records.status_codes import OUTAGE, UNPROCESSABLE


class ConfigurationResolver:
    """Asks the config service for the configurations of RMs. RMs wait in the order of their first question. The further
    questions of an RM wait for its first one.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._slots = asyncio.Semaphore(limits.RESOLUTIONS_AT_ONCE)
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}  # of each RM, with the number of questions that use it

    async def resolve_registration(self, request: si.RegisterResourceManagerRequest) -> config_pb2.Configuration:
        """Returns the configuration for a registration. Raises Refused: 422 the configuration is invalid, 503 no
        service answers.
        """
        return await self._resolve(
            config_pb2.ResolveConfiguration(
                rm_id=request.rmID,
                policy_group=request.policyGroup,
                config=request.config,
                extra_config=request.extraConfig,
            )
        )

    async def resolve_update(self, record: RmRecord, update: si.UpdateConfigurationRequest) -> config_pb2.Configuration:
        """Returns the configuration for an update. An empty policy group keeps the present one. Entries of
        `extraConfig` that the update does not name keep the values of the registration. Raises InvalidRequest.
        """
        question = config_pb2.ResolveConfiguration(
            rm_id=record.rm_id,
            policy_group=update.policyGroup or record.policy_group,
            config=update.config,
            extra_config={**record.extra_config, **update.extraConfig},
        )
        try:
            return await self._resolve(question)
        except Refused as refusal:
            raise InvalidRequest(f"configuration: {refusal.reason}") from None

    async def _resolve(self, question: config_pb2.ResolveConfiguration) -> config_pb2.Configuration:
        """Raises Refused: 422 with all problems, 503 no service answers."""
        async with self._lock_of(question.rm_id), self._slots:
            return await self._request(question)

    @asynccontextmanager
    async def _lock_of(self, rm_id: str) -> AsyncIterator[None]:
        lock, users = self._locks.get(rm_id, (asyncio.Lock(), 0))
        self._locks[rm_id] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(rm_id)
            if users > 1:
                self._locks[rm_id] = (lock, users - 1)

    async def _request(self, question: config_pb2.ResolveConfiguration) -> config_pb2.Configuration:
        try:
            reply = await self._bus.request(
                subjects.RESOLVE_CONFIGURATION, question.SerializeToString(), timeout_s=limits.CONFIGURATION_TIMEOUT_S
            )
        except Refused:
            raise
        except ValueError as error:
            raise Refused(f"config: {error}", UNPROCESSABLE) from None
        except BusError as error:
            raise Refused(f"no configuration service answered: {error}", OUTAGE) from error
        resolved = config_pb2.ResolvedConfiguration.FromString(reply.payload)
        if resolved.problems:
            raise Refused(configuration_problems(resolved), UNPROCESSABLE)
        return resolved.configuration


def configuration_problems(resolved: config_pb2.ResolvedConfiguration) -> str:
    """Returns the problems of a configuration in one line; "": there are none."""
    return joined(
        f"{problem.path}{f' (line {problem.line})' if problem.line else ''}: {problem.message}"
        for problem in resolved.problems
    )
