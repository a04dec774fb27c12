"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..client import completion
from ..terminal import arguments

DEFAULT_URL = "nats://127.0.0.1:4222"


def argument(
    metavar: str, described: str, check: Callable[..., Any], names: Callable[..., list[str]] | None = None
) -> Any:
    """`check`: of `terminal.arguments`. `names`: of `client.completion`."""
    return typer.Argument(metavar=metavar, help=described, callback=check, autocompletion=names)


def path_argument(described: str, metavar: str | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=described, callback=arguments.path)


def path_option(described: str, *names: str, metavar: str | None = None) -> Any:
    """`names`: where they are not that of the parameter."""
    return typer.Option(*names, metavar=metavar, help=described, callback=arguments.path)


Plain = Annotated[
    bool, typer.Option("--plain", help="Print lines instead of a live screen. Implied when stdout is no terminal.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
KeyDirectory = Annotated[
    Path,
    typer.Option(
        "--keys", envvar="REMUDA_KEYS", help="Directory of keys, created by `remuda keys`.", callback=arguments.path
    ),
]
KEYS = Path("keys")
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings", envvar="REMUDA_SETTINGS", help="remuda.yaml: settings of all services.", callback=arguments.path
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one setting. Counts before environment and file. Repeatable."),
]
Nats = Annotated[
    str,
    typer.Option(
        "--nats", envvar="REMUDA_NATS_URL", metavar="URL", help="NATS server to connect to.", callback=arguments.url
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]

ArchiveStore = Annotated[
    str | None,
    typer.Option(
        "--archive", envvar="REMUDA_ARCHIVE", metavar="STORE",
        help="Read this archive: a directory, or a URL like s3://bucket/prefix. Default: by the history service.",
    ),
]  # fmt: skip
ArchiveOptions = Annotated[
    list[str] | None,
    typer.Option("--archive-option", metavar="NAME=VALUE", help="Of the object store, as archive.options. Repeatable."),
]


def _rm(described: str, check: Callable[[str], str]) -> Any:
    return argument("RM", described, check, completion.rms)


Rm = Annotated[str, _rm("rmID of the resource manager.", arguments.rm_id)]
RmOrCluster = Annotated[str, _rm("Its rmID; of Peloton's, peloton.CLUSTER.", arguments.log_id)]
# Of commands of the class `client.names.OfRm`, which puts the RM before the other arguments where it is left out.
DefaultRm = Annotated[str, _rm("rmID of the resource manager. Default: the one that is registered.", arguments.rm_id)]
DefaultRmOrCluster = Annotated[
    str, _rm("rmID, or peloton.CLUSTER. Default: the RM that is registered.", arguments.log_id)
]
AnyRm = Annotated[str | None, _rm("rmID. Default: every RM.", arguments.rm_id)]
# Of commands about asks that wait.
PendingApplication = Annotated[
    str | None,
    typer.Argument(
        metavar="APP", help="applicationID. Default: every one with pending asks.", callback=arguments.application,
        autocompletion=completion.applications,
    ),
]  # fmt: skip
PendingKey = Annotated[
    str | None,
    typer.Argument(
        help="allocationKey. Default: every pending ask.", callback=arguments.key,
        autocompletion=completion.pending_keys,
    ),
]  # fmt: skip
