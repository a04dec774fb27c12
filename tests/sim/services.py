"""The services: what each process runs, and the errors by which a process may end."""

from __future__ import annotations

import asyncio
import functools

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_bus.resource_manager.errors import Superseded
from remuda_bus.resource_manager.status_codes import OUTAGE
from remuda_config.load import load
from remuda_config.problems import Invalid
from remuda_core.shell import main as core_shell
from remuda_core.shell.settings import CoreSettings
from remuda_events import shell as events_shell
from remuda_proto.remuda.v1 import config_pb2
from remuda_rmproxy import shell as rmproxy_shell
from remuda_rmproxy.settings import RmproxySettings
from remuda_sdk import RegistrationFailed

from .story import CURRENT

STANDBYS = 1
LONG_CHARACTERS = 10_000
S_PER_CHARACTER = 10e-6


async def core(snapshot_facts: int, bus: Bus) -> None:
    settings = CoreSettings(
        instance=_name(),
        standbys=STANDBYS,
        snapshot_facts=snapshot_facts,
        snapshot_s=10.0,
        snapshot_apart_s=0.5,
        snapshot_in_child=False,
        replay_horizon_s=0.0,
    )
    await core_shell.main(bus, settings)


async def rmproxy(bus: Bus) -> None:
    await rmproxy_shell.main(bus, RmproxySettings(instance=_name(), scheduler_acl="ops"))


async def events(bus: Bus) -> None:
    await events_shell.serve(bus, _name())


def _name() -> str:
    process = CURRENT.get()
    assert process is not None
    return f"{process.name}.{process.lives}"


async def config(bus: Bus) -> None:
    await bus.serve(subjects.RESOLVE_CONFIGURATION, _resolve, "resolve")
    await asyncio.get_running_loop().create_future()


async def _resolve(message: Message) -> bytes:
    question = config_pb2.ResolveConfiguration.FromString(message.payload)
    if len(question.config) > LONG_CHARACTERS:  # to read it takes its time
        await asyncio.sleep(len(question.config) * S_PER_CHARACTER)
        resolved = config_pb2.ResolvedConfiguration()
        resolved.problems.add(message="too long")
        return resolved.SerializeToString()
    return _resolved(question.config)


@functools.cache
def _resolved(text: str) -> bytes:
    resolved = config_pb2.ResolvedConfiguration()
    try:
        resolved.configuration.CopyFrom(load(text, "rm"))
    except Invalid as invalid:
        for problem in invalid.problems:
            resolved.problems.add(path=problem.path, line=problem.line, message=problem.message)
    return resolved.SerializeToString()


def expected(error: BaseException) -> bool:
    """An RM that could not register, or was superseded by a registration of its own that came late."""
    return isinstance(error, Superseded) or (isinstance(error, RegistrationFailed) and error.code == OUTAGE)
