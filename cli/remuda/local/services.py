"""The services that this command line starts: their `main`, and the model of their settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from remuda_bus.bus import Bus

from .. import extras
from ..errors import UserError

if TYPE_CHECKING:  # commands that only need the names start sooner without pydantic
    from remuda_bus.settings import Loaded
    from remuda_replication.process import Settings

Main = Callable[[Bus, Any], Awaitable[None]]  # of a service, with settings of its own


class _Parts(NamedTuple):
    """`main`: the module that has it. `settings`: the module of the model, and its name. `extra`: of the distribution,
    which the service needs."""

    main: str
    settings: str
    extra: str = ""


_ARCHIVE, _PELOTON = "remuda_archive.settings.ArchiveSettings", "remuda_peloton.shell.settings"
_PARTS: Final = {
    "rmproxy": _Parts("remuda_rmproxy.shell", "remuda_rmproxy.settings.RmproxySettings"),
    "core": _Parts("remuda_core.shell.main", "remuda_core.shell.settings.CoreSettings"),
    "config": _Parts("remuda_config.shell.service", "remuda_config.shell.settings.ConfigSettings"),
    "events": _Parts("remuda_events.shell", "remuda_events.settings.EventsSettings"),
    "grpc": _Parts("remuda_grpc.shell", "remuda_grpc.settings.GrpcSettings"),
    "web": _Parts("remuda_web.shell", "remuda_web.settings.WebSettings"),
    "archive": _Parts("remuda_archive.shell", _ARCHIVE, "archive"),
    "history": _Parts("remuda.history.shell", _ARCHIVE, "archive"),
    "shadow": _Parts("remuda.history.shadow", "remuda.history.shadow_settings.ShadowSettings", "archive"),
    "kubernetes": _Parts("remuda_kubernetes.shell", "remuda_kubernetes.settings.KubernetesSettings", "kubernetes"),
    "resmgr": _Parts("remuda_peloton.shell.main", f"{_PELOTON}.ResmgrSettings", "peloton"),
    "placement": _Parts("remuda_peloton.shell.placement", f"{_PELOTON}.PlacementSettings", "peloton"),
}
SERVICES: Final = tuple(_PARTS)
REQUIRED: Final = ("rmproxy", "core", "config", "events")
STARTED: Final = (*REQUIRED, "grpc", "web")  # by `remuda up`


def check_service(name: str) -> str:
    if name not in SERVICES:
        raise UserError(f"no service {name!r}: expected one of {', '.join(SERVICES)}")
    return name


def package_of(service: str) -> str:
    return _PARTS[service].main.partition(".")[0]


def check_extras(loaded: Mapping[str, Loaded[Settings]]) -> None:
    """Whether what these services import is installed. Raises UserError that names the missing extra."""
    for service, found in loaded.items():
        if extra := _PARTS[service].extra:
            extras.need(extra, f"service {service}")
        if found.settings.traces_endpoint:
            extras.need("telemetry", f"{service}: traces.endpoint {found.settings.traces_endpoint}")


def settings_of(service: str) -> type[Settings]:
    """The model of the settings of a service. Imports only this service, to save memory."""
    module, _, name = _PARTS[service].settings.rpartition(".")
    return cast("type[Settings]", getattr(import_module(module), name))


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
    return cast(Main, import_module(_PARTS[service].main).main)
