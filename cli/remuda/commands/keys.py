"""Commands for keys: of the services, of operators, of resource managers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..terminal import arguments
from .options import KEYS, KeyDirectory, Rm


def keys(
    directory: Annotated[Path, typer.Argument(help="Directory for the keys.", callback=arguments.path)] = KEYS,
) -> None:
    """Create a key for each role that has none, and server/accounts.conf with the permissions for the NATS servers."""
    from ..access.command import make_keys

    make_keys(directory)


def add(rm: Rm, keys: KeyDirectory = KEYS) -> None:
    """Create the key of a resource manager and grant its permissions."""
    from ..access.command import add_rm

    add_rm(keys, rm)


def remove(rm: Rm, keys: KeyDirectory = KEYS) -> None:
    """Delete the key of a resource manager. Its allocations stay."""
    from ..access.command import remove_rm

    remove_rm(keys, rm)
