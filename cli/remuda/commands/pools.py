"""Commands that change the pools of Peloton's resource manager."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..terminal import arguments
from .options import DEFAULT_URL, AsJson, Nats, Yes, argument, path_argument, path_option

Cluster = Annotated[str, typer.Option(help="Cluster of the resource manager.", callback=arguments.rm_id)]
PoolPath = Annotated[str, argument("PATH", "Such as /a/b.", arguments.pool)]


def apply(
    file: Annotated[Path, path_argument("The pools, in YAML.", "FILE")],
    preview: Annotated[bool, typer.Option("--preview", help="First show what it would do, and ask.")] = False,
    yes: Yes = False,
    cluster: Cluster = "default",
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Make the pools as a file says. A problem is shown with its line; then nothing changes."""
    from ..admin.pools import apply as put_in_force

    put_in_force(nats, cluster, file, preview, yes, json)


def preview(
    file: Annotated[Path, path_argument("The pools, in YAML.", "FILE")],
    cluster: Cluster = "default",
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show what a file would do, and change nothing: pools that change, field by field, entitlements before and after,
    tasks that would be above them. Refuses a file that `apply` would refuse."""
    from ..admin.pools import preview as show

    show(nats, cluster, file, json)


def set_keys(
    path: PoolPath,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Such as cpu.limit=64, cpu.type=STATIC, slack_limit=10."),
    ] = None,
    file: Annotated[
        Path | None, path_option("A pool as Peloton's own `respool create` reads it.", metavar="FILE")
    ] = None,
    cluster: Cluster = "default",
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Change keys of a pool, or create it."""
    from ..admin.pools import set_keys as change

    change(nats, cluster, path, values or [], file, json)


def delete(path: PoolPath, cluster: Cluster = "default", nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Delete a pool without children and tasks."""
    from ..admin.pools import delete as change

    change(nats, cluster, path, json)
