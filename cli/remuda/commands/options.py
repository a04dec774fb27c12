"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..client import completion
from ..terminal import arguments

DEFAULT_URL = "nats://127.0.0.1:4222"
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
Rm = Annotated[
    str,
    typer.Argument(
        metavar="RM", help="rmID of the resource manager.", callback=arguments.rm_id, autocompletion=completion.rms
    ),
]
# Of commands of the class `client.names.OfRm`, which puts the RM before the other arguments where it is left out.
DefaultRm = Annotated[
    str,
    typer.Argument(
        metavar="RM",
        help="rmID of the resource manager. Default: the one that is registered.",
        callback=arguments.rm_id,
        autocompletion=completion.rms,
    ),
]
DefaultRmOrCluster = Annotated[
    str,
    typer.Argument(
        metavar="RM",
        help="rmID, or peloton.CLUSTER. Default: the RM that is registered.",
        callback=arguments.log_id,
        autocompletion=completion.rms,
    ),
]
RmOrCluster = Annotated[
    str,
    typer.Argument(
        metavar="RM", help="Its rmID; of Peloton's, peloton.CLUSTER.", callback=arguments.log_id,
        autocompletion=completion.rms,
    ),
]  # fmt: skip
AnyRm = Annotated[
    str | None,
    typer.Argument(
        metavar="RM", help="rmID. Default: every RM.", callback=arguments.rm_id, autocompletion=completion.rms
    ),
]
