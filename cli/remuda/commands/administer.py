"""Commands that change what a running system stores. Where roles are in use, they need the role `admin`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..limits import LOG_LEVEL_FOR_S
from ..terminal import arguments
from .options import DEFAULT_URL, AsJson, Nats, Rm, RmOrCluster, SettingsFile, Yes, path_argument, path_option


def rebuild(
    rm: RmOrCluster,
    nats: Nats = DEFAULT_URL,
    directory: Annotated[Path, path_option("Directory for the file with the removed messages.")] = Path(),
    yes: Yes = False,
) -> None:
    """Delete the log, inbox, callbacks and snapshots of a resource manager and let it report anew. For an RM whose
    stream has lost or changed messages."""
    from ..admin.rebuild import rebuild as start

    start(nats, rm, directory, yes)


def resume(
    rm: RmOrCluster,
    nats: Nats = DEFAULT_URL,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """End the halt of a resource manager after the cause of the fault is mended. Nothing is deleted."""
    from ..admin.resume import resume as start

    start(nats, rm, yes, json)


def log(
    service: Annotated[str, typer.Argument(help="All its processes; or SERVICE.MODULE: one module of it.")],
    level: Annotated[Literal["debug", "info", "warning", "error"], typer.Argument(help="Least level that is logged.")],
    for_: Annotated[
        float | None,
        typer.Option("--for", help="Then as before. Default: 10m.", parser=arguments.duration_s, metavar="DURATION"),
    ] = None,
    logger: Annotated[str, typer.Option(help="That of a library, such as nats. Default: the service's own.")] = "",
    rm: Annotated[str | None, typer.Option(help="The RM of a front end that is one: kubernetes.")] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Change the log level of running processes for a while. Needs the role admin, or a name that
    `remuda operator log-levels` has."""
    from ..admin.log_level import log_level as start

    start(nats, service, level, logger, for_ if for_ is not None else LOG_LEVEL_FOR_S, json, rm)


def backup(
    directory: Annotated[Path, path_argument("New directory for all streams and buckets.")],
    nats: Nats = DEFAULT_URL,
) -> None:
    """Save all streams and buckets of a running system. Needs the role admin."""
    from ..admin.backup import backup as start

    start(nats, directory)


def restore(
    directory: Annotated[Path, path_argument("Directory written by `remuda backup`.")],
    nats: Nats = DEFAULT_URL,
    data: Annotated[
        Path | None, path_option("Restore into this data directory of a stopped `remuda up`. Faster.")
    ] = None,
) -> None:
    """Restore a backup into empty NATS servers, before any service starts. Needs the role admin."""
    from ..admin.backup import restore_backup as start

    start(nats, directory, data)


def declare(
    nats: Annotated[
        str | None, typer.Option(metavar="URL", help="NATS server, as --set nats.url.", callback=arguments.url)
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=5, help="Number of servers that store each stream, as --set nats.replicas.")
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Create or update all streams and buckets for this version. Needs the role admin. Run it before the services of a
    new version start."""
    from ..admin.declare import declare as start

    start(nats, replicas, settings)


def forget(
    rm: Rm,
    nats: Nats = DEFAULT_URL,
    yes: Yes = False,
    although_registered: Annotated[
        bool, typer.Option("--although-registered", help="Also if it is registered and not Stopped.")
    ] = False,
) -> None:
    """Delete everything stored about a resource manager that has deregistered or is Stopped. Needs the role admin."""
    from ..admin.forget import forget as start

    start(nats, rm, yes, although_registered)


def divide(
    rm: Rm,
    config: Annotated[Path, path_option("The queues.yaml that the resource manager has.", "--config")],
    into: Annotated[
        list[str],
        typer.Option(
            "--into", metavar="RM=PARTITION,...", help="A new resource manager and its partitions. Twice or more often."
        ),
    ],
    directory: Annotated[Path, path_option("New directory for the configurations and the steps.")],
    nats: Nats = DEFAULT_URL,
) -> None:
    """Prepare the division of a resource manager into several, by partitions: check everything, and write a
    configuration for each and the steps to take. Changes nothing in the running system."""
    from ..admin.divide import divide as start

    start(nats, rm, config, into, directory)


def check_cluster(
    kubeconfig: Annotated[
        Path | None, path_option("Of an administrator. Default: the service account of this pod.")
    ] = None,
    context: Annotated[str, typer.Option(help="Context of the kubeconfig. Default: its current one.")] = "",
    mode: Annotated[Literal["shim", "plugin"], typer.Option(help="Mode of the front end.")] = "shim",
    account: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Service account of the front end.")
    ] = "remuda/remuda",
    json: AsJson = False,
) -> None:
    """List what an installation on Kubernetes has and lacks: version, service accounts, rights, the admission webhook,
    the policy that keeps gates, objects of other schedulers. Changes nothing; exit code 1 if something is needed."""
    from ..admin.kubernetes_check import check_cluster as check

    check(kubeconfig, context, mode, account, json)
