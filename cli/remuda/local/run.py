"""`remuda run SERVICE`: one service in the foreground. Gives a service's `main` to `remuda_replication.process`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from remuda_replication.process import run as run_process

from ..errors import UserError
from ..terminal import arguments
from .services import check_extras, check_service, check_settings, main_of

# Options that stand for a setting of one service.
OF_SERVICE = {"file": "config", "queues": "shadow", "version": "shadow"}


def run(
    service: str, url: str | None, files: Mapping[str, Path | None], settings: Path | None, assignments: Sequence[str]
) -> None:
    """Returns after a stop signal. `remuda_replication.process` reports errors of the service."""
    check_service(service)
    given = list(assignments)
    for name, file in files.items():
        if file is not None and service != OF_SERVICE[name]:
            raise UserError(f"--{name} belongs to the service {OF_SERVICE[name]}, not to {service}")
        if file is not None:
            if not file.is_dir() or name != "version":
                arguments.readable(f"--{name}", file)
            given.append(f"{OF_SERVICE[name]}.{name}={file}")
    if url is not None:
        arguments.url(url)
        given.append(f"nats.url={url}")
    found = check_settings([service], settings, given)
    check_extras(found)
    loaded = found[service].settings
    arguments.url(loaded.nats_url)
    arguments.instance(loaded.instance)
    run_process(service, main_of(service), loaded)
