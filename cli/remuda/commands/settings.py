"""Commands about the settings of services."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson, Assignments, SettingsFile, path_argument


def show(
    service: Annotated[
        str | None, typer.Option(metavar="NAME", help="rmproxy, core, config or events. Default: all.")
    ] = None,
    settings: SettingsFile = None,
    assignments: Assignments = None,
    json: AsJson = False,
) -> None:
    """Show what counts here: the value of each setting and where it comes from. Secrets are hidden."""
    from ..show.settings import show as effective

    effective(service, settings, assignments or (), json)


def check(file: Annotated[Path, path_argument("The remuda.yaml.")], json: AsJson = False) -> None:
    """Check a remuda.yaml for all services, and that the files it names are readable here. Prints every problem."""
    from ..show.settings import check as verify

    verify(file, json)
