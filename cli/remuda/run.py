"""`remuda run SERVICE`: one service in the foreground. Wires a service's composition root to `remuda_bus.process`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from remuda_bus.bus import Bus
from remuda_bus.process import Settings
from remuda_bus.process import run as run_process

from .errors import UserError

Main = Callable[[Bus, Any], Awaitable[None]]  # of a service, with settings of its own
SERVICES = ("rmproxy", "core", "config", "events")


def run(service: str, url: str, file: Path | None) -> None:
    """Returns when the service was told to stop; what goes wrong inside is reported by `remuda_bus.process`."""
    if service not in SERVICES:
        raise UserError(f"no service {service!r}: expected one of {', '.join(SERVICES)}")
    if file is not None and service != "config":
        raise UserError(f"--file belongs to the service config, not to {service}")
    if file is not None and not file.is_file():
        raise UserError(f"--file {file}: no such file")
    main, settings = _service(service, file)
    run_process(service, main, settings(nats_url=url))


def _service(service: str, file: Path | None) -> tuple[Main, type[Settings]]:
    """Its `main` and settings. Imports only the service that runs: the others, and their memory, stay out of it."""
    if service == "core":
        from remuda_core.shell.main import main as core
        from remuda_core.shell.settings import CoreSettings

        return core, CoreSettings
    if service == "rmproxy":
        from remuda_rmproxy.shell import main as rmproxy

        return rmproxy, Settings
    if service == "events":
        from remuda_events.shell import main as events

        return events, Settings
    from remuda_config.shell import ConfigSettings
    from remuda_config.shell import main as config

    return lambda bus, settings: config(bus, settings, file), ConfigSettings
