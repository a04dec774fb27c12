"""Pools from a file that is watched, and from operators (`remuda pool apply`, `set`, `delete`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from remuda_bus.bus import Bus, Message, Refused
from remuda_bus.status_codes import FORBIDDEN, UNAVAILABLE
from remuda_bus.subjects import peloton_change, peloton_pools
from remuda_bus.untrusted import json_object
from remuda_operations.operators import operator_of
from remuda_proto.access_list import AccessList
from remuda_proto.bounds import shown
from remuda_proto.remuda.resmgr.v1 import pools_pb2 as pb

from .. import limits
from ..rules.pools import ROOT, PoolConfig
from ..state import State
from ..wire import pool_fields, pool_rpcs
from ..wire.rpcs import RpcError
from .pools_file import PoolsFile, PoolsFileError
from .request_handler import RequestHandler, Unavailable

log = structlog.get_logger()


async def apply(handler: RequestHandler, text: str) -> list[str]:
    """Apply a pools file. Returns the changes, in words. Raises PoolsFileError, RpcError, Unavailable."""
    described = await asyncio.to_thread(PoolsFile, text)
    encoded = await handler.answer(pool_rpcs.APPLY, pool_rpcs.APPLY_POOLS, described.request)
    answer = pb.ApplyPoolsResponse.FromString(encoded)
    if answer.problem:
        raise described.problem(answer)
    return list(answer.changes)


class PoolChanges:
    """Answers requests of administrators of the system on `remuda.peloton.<cluster>.pools`, and of operators on
    `remuda.pools.<operator>.<groups>.<cluster>`, if they are among `administrators`. `file`: where pools are described;
    then they are changed there alone."""

    def __init__(
        self, bus: Bus, cluster: str, handler: RequestHandler, file: Path | None, administrators: AccessList
    ) -> None:
        self._bus, self._cluster, self._handler, self._file = bus, cluster, handler, file
        self._administrators = administrators

    async def serve(self) -> None:
        for subject, answer, name in (
            (peloton_pools(self._cluster), self._answer_administrator, "pools_change"),
            (peloton_change("*", "*", self._cluster), self._answer_operator, "pools_change_by_operator"),
        ):
            await self._bus.serve(subject, answer, name, lambda: self._handler.leader is not None)

    async def _answer_administrator(self, message: Message) -> bytes:
        return await self._answer(message, "the administrator")

    async def _answer_operator(self, message: Message) -> bytes:
        _, _, name, groups, _ = message.subject.split(".")
        try:
            operator = operator_of(name, groups)
        except ValueError as error:
            raise Refused(str(error)) from None
        if not self._administrators.allows(operator.name, operator.groups):
            raise Refused(f"{operator.name} may not change pools: expected a member of scheduler.acl", FORBIDDEN)
        return await self._answer(message, operator.name)

    async def _answer(self, message: Message, by: str) -> bytes:
        if self._file is not None:
            raise Refused(f"the pools of {self._cluster!r} are those of {self._file}: change them there")
        try:
            request = json_object(message.payload or b"{}", "the request")
            changes = await self._change(request)
        except (ValueError, RpcError) as error:
            raise Refused(str(error)) from error
        except Unavailable as error:
            raise Refused(str(error), UNAVAILABLE) from error
        log.info("pools changed by an operator", operator=by, changes=len(changes))
        return json.dumps({"changes": changes}).encode()

    async def _change(self, request: dict[str, Any]) -> list[str]:
        """`text`: all pools; or `path` with `set`, or with `delete`."""
        text, path, values = request.get("text"), request.get("path"), request.get("set")
        if isinstance(text, str):
            return await apply(self._handler, text)
        if not isinstance(path, str):
            raise Refused(f"path is {shown(path)}, expected that of a pool, or pools in YAML as text")
        if request.get("delete") is True:
            name, asked = pool_fields.delete(path)
        elif isinstance(values, dict) and all(isinstance(value, str) for value in values.values()):
            name, asked = pool_fields.set_fields(self._handler.state, path, values)
        else:
            raise Refused(f"set is {shown(values)}, expected keys with values")
        encoded = await self._handler.answer(name, pool_rpcs.RPCS[name], asked)
        if problem := pool_fields.problem_of(name, encoded):
            raise Refused(problem)
        return [f"{path} {'deleted' if name == pool_fields.DELETE else 'set'}"]


async def follow(path: Path, handler: RequestHandler, state: Callable[[], State]) -> None:
    """Applies the file, without end, while this process leads, when the file or the pools have changed. A text that
    differs from the look before may still be being written, and pools that are not in it yet would be deleted. A text
    with a problem changes nothing, and is tried again now and then: a pool with tasks is only in the way for a time."""
    applied: tuple[str, dict[str, PoolConfig]] | None = None
    seen, complained, tried, again_s = "", "", "", 0.0
    while True:
        await asyncio.sleep(limits.POOLS_FILE_S)
        if handler.leader is None:
            applied = None
            continue
        again_s -= limits.POOLS_FILE_S
        try:
            before, seen = seen, await asyncio.to_thread(_read, path)
            if seen != before or applied == (seen, _below_root(state())) or (seen == tried and again_s > 0):
                continue
            tried, again_s = seen, limits.POOLS_RETRY_S
            changes = await apply(handler, seen)
            applied, complained, tried = (seen, _below_root(state())), "", ""
            if changes:
                log.info("pools file applied", file=str(path), changes=changes[: limits.POOL_CHANGES_SHOWN])
        except (PoolsFileError, OSError, UnicodeDecodeError, Unavailable, RpcError) as error:
            if complained != str(error):
                complained = str(error)
                log.error("pools file not applied; the pools stay as they are", file=str(path), error=complained)


def _below_root(state: State) -> dict[str, PoolConfig]:
    """Root's configuration is the capacity."""
    return {pool_id: pool.config for pool_id, pool in state.pools.items() if pool.config.id != ROOT}


def _read(path: Path) -> str:
    with path.open("rb") as file:
        payload = file.read(limits.POOLS_FILE_BYTES + 1)
    if len(payload) > limits.POOLS_FILE_BYTES:
        raise PoolsFileError(0, f"larger than {limits.POOLS_FILE_BYTES} bytes")
    return payload.decode()
