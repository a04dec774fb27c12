"""`remuda run SERVICE`: one service in the foreground. Connects a service's `main` with `remuda_bus.process`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from remuda_bus.bus import Bus
from remuda_bus.process import Settings
from remuda_bus.process import run as run_process

from ..errors import UserError
from ..terminal import arguments

Main = Callable[[Bus, Any], Awaitable[None]]  # of a service, with settings of its own
SERVICES = ("rmproxy", "core", "config", "events")


def run(service: str, url: str, file: Path | None) -> None:
    """Returns after a stop signal. `remuda_bus.process` reports errors of the service."""
    if service not in SERVICES:
        raise UserError(f"no service {service!r}: expected one of {', '.join(SERVICES)}")
    if file is not None and service != "config":
        raise UserError(f"--file belongs to the service config, not to {service}")
    if file is not None:
        arguments.readable("--file", file)
    arguments.url(url)
    main, kind = _service(service, file)
    settings = kind(nats_url=url)
    arguments.instance(settings.instance)
    run_process(service, main, settings)


def _service(service: str, file: Path | None) -> tuple[Main, type[Settings]]:
    """`main` and settings of the service. Imports only this service, to save memory."""
    if service == "core":
        from remuda_core.shell.main import main as core
        from remuda_core.shell.settings import CoreSettings

        return core, CoreSettings
    if service == "rmproxy":
        from remuda_rmproxy.settings import RmproxySettings
        from remuda_rmproxy.shell import main as rmproxy

        return rmproxy, RmproxySettings
    if service == "events":
        from remuda_events.shell import main as events

        return events, Settings
    from remuda_config.shell import ConfigSettings
    from remuda_config.shell import main as config

    return lambda bus, settings: config(bus, settings, file), ConfigSettings
