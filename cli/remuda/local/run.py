"""`remuda run SERVICE`: one service in the foreground. Gives a service's `main` to `remuda_replication.process`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from remuda_replication.process import run as run_process

from ..errors import UserError
from ..terminal import arguments
from .services import check_extras, check_service, check_settings, main_of


def run(service: str, url: str | None, file: Path | None, settings: Path | None, assignments: Sequence[str]) -> None:
    """Returns after a stop signal. `remuda_replication.process` reports errors of the service."""
    check_service(service)
    given = list(assignments)
    if file is not None and service != "config":
        raise UserError(f"--file belongs to the service config, not to {service}")
    if file is not None:
        arguments.readable("--file", file)
        given.append(f"config.file={file}")
    if url is not None:
        arguments.url(url)
        given.append(f"nats.url={url}")
    found = check_settings([service], settings, given)
    check_extras(found)
    loaded = found[service].settings
    arguments.url(loaded.nats_url)
    arguments.instance(loaded.instance)
    run_process(service, main_of(service), loaded)
