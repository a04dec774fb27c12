"""The services: what each process runs, and the errors by which a process may end."""

from __future__ import annotations

from pathlib import Path

from remuda_bus.bus import Bus
from remuda_config.shell import service as config_shell
from remuda_config.shell.settings import ConfigSettings
from remuda_core.shell import main as core_shell
from remuda_core.shell.settings import CoreSettings
from remuda_events import shell as events_shell
from remuda_rmproxy import shell as rmproxy_shell
from remuda_rmproxy.settings import RmproxySettings
from remuda_sdk import RegistrationFailed
from remuda_sdk.resource_manager.registration import OUTAGE, Superseded

from .story import CURRENT

STANDBYS = 1


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


async def rmproxy(bus: Bus, guests: tuple[str, ...] = ()) -> None:
    await rmproxy_shell.main(bus, RmproxySettings(instance=_name(), scheduler_acl="ops", guests=guests))


async def events(bus: Bus) -> None:
    await events_shell.serve(bus, _name(), ledger_tags=())


def _name() -> str:
    process = CURRENT.get()
    assert process is not None
    return f"{process.name}.{process.lives}"


async def config(file: Path | None, bus: Bus) -> None:
    await config_shell.main(bus, ConfigSettings(instance=_name(), scheduler_acl="ops"), file)


def expected(error: BaseException) -> bool:
    """An RM that could not register, or was superseded by a registration of its own that came late."""
    return isinstance(error, Superseded) or (isinstance(error, RegistrationFailed) and error.code == OUTAGE)
