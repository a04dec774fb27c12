"""The services that this command line starts: their `main`, and the model of their settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from remuda_bus.bus import Bus

from .. import extras
from ..errors import UserError

if TYPE_CHECKING:  # commands that only need the names start sooner without pydantic
    from remuda_bus.settings import Loaded
    from remuda_replication.process import Settings

Main = Callable[[Bus, Any], Awaitable[None]]  # of a service, with settings of its own
REQUIRED: Final = ("rmproxy", "core", "config", "events")
STARTED: Final = (*REQUIRED, "grpc", "web")  # by `remuda up`
SERVICES: Final = (*STARTED, "archive", "history", "shadow", "kubernetes", "resmgr", "placement")
# The packages of services whose name is not that of the service.
PACKAGES: Final = {"history": "remuda", "shadow": "remuda", "resmgr": "remuda_peloton", "placement": "remuda_peloton"}
# The extras of the distribution that services need.
EXTRAS: Final = {
    "archive": "archive", "history": "archive", "shadow": "archive", "kubernetes": "kubernetes", "resmgr": "peloton",
    "placement": "peloton",
}  # fmt: skip


def check_service(name: str) -> str:
    if name not in SERVICES:
        raise UserError(f"no service {name!r}: expected one of {', '.join(SERVICES)}")
    return name


def check_extras(loaded: Mapping[str, Loaded[Settings]]) -> None:
    """Whether what these services import is installed. Raises UserError that names the missing extra."""
    for service, found in loaded.items():
        if service in EXTRAS:
            extras.need(EXTRAS[service], f"service {service}")
        if found.settings.traces_endpoint:
            extras.need("telemetry", f"{service}: traces.endpoint {found.settings.traces_endpoint}")


def settings_of(service: str) -> type[Settings]:
    """The model of the settings of a service. Imports only this service, to save memory."""
    if service in ("archive", "history"):
        from remuda_archive.settings import ArchiveSettings

        return ArchiveSettings
    if service == "shadow":
        from ..history.shadow_settings import ShadowSettings

        return ShadowSettings
    if service == "core":
        from remuda_core.shell.settings import CoreSettings

        return CoreSettings
    if service == "events":
        from remuda_events.settings import EventsSettings

        return EventsSettings
    if service == "rmproxy":
        from remuda_rmproxy.settings import RmproxySettings

        return RmproxySettings
    if service == "config":
        from remuda_config.shell.settings import ConfigSettings

        return ConfigSettings
    if service == "grpc":
        from remuda_grpc.settings import GrpcSettings

        return GrpcSettings
    if service == "web":
        from remuda_web.settings import WebSettings

        return WebSettings
    if service == "kubernetes":
        from remuda_kubernetes.settings import KubernetesSettings

        return KubernetesSettings
    if service == "resmgr":
        from remuda_peloton.shell.settings import ResmgrSettings

        return ResmgrSettings
    if service == "placement":
        from remuda_peloton.shell.settings import PlacementSettings

        return PlacementSettings
    from remuda_replication.process import Settings as OfAllServices

    return OfAllServices


def check_settings(
    services: Iterable[str], file: Path | None, assignments: Sequence[str], *, environment: bool = True
) -> dict[str, Loaded[Settings]]:
    """The settings of these services. Raises SettingsProblems with all problems, each once."""
    from remuda_bus.settings import SettingsProblems, load

    loaded: dict[str, Loaded[Settings]] = {}
    problems: dict[str, None] = {}
    for service in services:
        try:
            loaded[service] = load(settings_of(service), file, assignments, environment=environment)
        except SettingsProblems as found:
            problems.update(dict.fromkeys(found.problems))
    if problems:
        raise SettingsProblems(list(problems))
    return loaded


def main_of(service: str) -> Main:
    """Imports only this service."""
    if service == "archive":
        from remuda_archive.shell import main as archive

        return archive
    if service == "history":
        from ..history.shell import main as history

        return history
    if service == "shadow":
        from ..history.shadow import main as shadow

        return shadow
    if service == "core":
        from remuda_core.shell.main import main as core

        return core
    if service == "rmproxy":
        from remuda_rmproxy.shell import main as rmproxy

        return rmproxy
    if service == "config":
        from remuda_config.shell.service import main as config

        return config
    if service == "grpc":
        from remuda_grpc.shell import main as grpc

        return grpc
    if service == "web":
        from remuda_web.shell import main as web

        return web
    if service == "kubernetes":
        from remuda_kubernetes.shell import main as kubernetes

        return kubernetes
    if service == "resmgr":
        from remuda_peloton.shell.main import main as resmgr

        return resmgr
    if service == "placement":
        from remuda_peloton.shell.placement import main as placement

        return placement
    from remuda_events.shell import main as events

    return events
