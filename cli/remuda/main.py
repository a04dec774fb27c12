"""The command line `remuda`: what its commands are called and which options they take. Each command lives in its own
module, imported when it is used, so that a service started by `remuda run` carries nothing of the screens.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import UserError
from .loop import Stopped

DEFAULT_URL = "nats://127.0.0.1:4222"

cli = typer.Typer(
    name="remuda",
    help="A universal resource scheduler: resource managers ask over NATS, remuda decides.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config = typer.Typer(help="Look at queue configurations.", no_args_is_help=True)
cli.add_typer(config, name="config")
rm_commands = typer.Typer(help="Who may be a resource manager.", no_args_is_help=True)
cli.add_typer(rm_commands, name="rm")

Plain = Annotated[
    bool, typer.Option("--plain", help="Lines instead of a live screen; also when stdout is no terminal.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
KeyDirectory = Annotated[
    Path, typer.Option("--keys", envvar="REMUDA_KEYS", help="Directory of keys, made by `remuda keys`.")
]
KEYS = Path("keys")
Nats = Annotated[str, typer.Option("--nats", envvar="REMUDA_NATS_URL", metavar="URL", help="NATS server to talk to.")]


def app() -> None:
    """Entry point. A user's mistake is one line and exit code 1; a signal ends with 128 + its number."""
    try:
        cli()
    except UserError as error:
        print(f"remuda: {error}", file=sys.stderr)
        sys.exit(1)
    except Stopped as stopped:
        print(f"remuda: stopped by {stopped.sign.name}", file=sys.stderr)
        sys.exit(128 + stopped.sign)


@cli.command()
def up(
    data: Annotated[Path, typer.Option(help="Directory for the streams and logs.")] = Path("remuda-data"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the NATS server, on loopback; 0: any free one.")
    ] = 4222,
    config: Annotated[Path | None, typer.Option(help="queues.yaml; watched while it runs.")] = None,
    cores: Annotated[
        int, typer.Option(min=1, max=64, help="Core processes: they share the RMs, and stand by for each other.")
    ] = 1,
    rmproxies: Annotated[int, typer.Option(min=1, max=64, help="rmproxy processes.")] = 1,
    plain: Plain = False,
) -> None:
    """Start everything on this machine: a NATS server and all services, kept running until Ctrl-C."""
    from .up import up as start

    start(data=data, port=port, config=config, cores=cores, rmproxies=rmproxies, plain=plain)


@cli.command()
def run(
    service: Annotated[str, typer.Argument(help="rmproxy, core, config or events.")],
    nats: Nats = DEFAULT_URL,
    file: Annotated[Path | None, typer.Option(help="config only: the queues.yaml to serve and to watch.")] = None,
) -> None:
    """Run one service in the foreground, against a NATS server with JetStream."""
    from .run import run as start

    start(service, nats, file)


@cli.command()
def demo(
    seconds: Annotated[float, typer.Option(min=4, help="How long it runs, from start to summary.")] = 20,
    plain: Plain = False,
) -> None:
    """See it work: an own system, two resource managers, a mixed workload, a summary. Leaves nothing behind."""
    from .demo.command import demo as start

    start(seconds=seconds, plain=plain)


@cli.command()
def load(
    nats: Annotated[
        str | None,
        typer.Option(
            "--nats",
            envvar="REMUDA_NATS_URL",
            metavar="URL",
            help="A running system; without it, one is started for this.",
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 100,
    apps: Annotated[int, typer.Option(min=1, help="How many applications.")] = 10,
    asks: Annotated[int, typer.Option(min=1, help="How many asks in each.")] = 100,
    rate: Annotated[float | None, typer.Option(min=0.1, help="Asks per second; default: as fast as possible.")] = None,
    duration: Annotated[
        float | None,
        typer.Option(min=0.001, help="Seconds an allocation runs before it is released; default: for ever."),
    ] = None,
    trace: Annotated[
        tuple[str, Path, Path] | None,
        typer.Option(metavar="openb NODES.csv PODS.csv", help="Replay a recorded cluster instead."),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(min=0.001, help="Trace seconds per second; default: as fast as possible.")
    ] = None,
    rm: Annotated[str | None, typer.Option(help="rmID to register as; default: a new one.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave nodes and work behind (only of use with --nats).")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw utilisation over time into this file (.png, .svg, .pdf).")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report into this file; '-' for stdout.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write every callback, in order, as JSON lines.")] = None,
    plain: Plain = False,
) -> None:
    """Drive a workload as a resource manager and report what became of it."""
    from .load.command import Options
    from .load.command import load as start

    start(
        Options(
            nats=nats,
            nodes=nodes,
            apps=apps,
            asks=asks,
            rate=rate,
            duration_s=duration,
            trace=trace,
            speed=speed,
            rm=rm,
            keep=keep,
            plot=plot,
            json=json,
            record=record,
            plain=plain,
        )
    )


@cli.command()
def status(nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Which services run, which core leads what, which resource managers are registered, what they use."""
    from .look import status as show

    show(nats, json)


@cli.command()
def rebuild(
    rm: Annotated[str, typer.Argument(help="rmID.")],
    nats: Nats = DEFAULT_URL,
    directory: Annotated[Path, typer.Option(help="Where what is removed is saved.")] = Path(),
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Begin anew with what a resource manager reports, after a stream has lost or changed its past."""
    from .rebuild import rebuild as start

    start(nats, rm, directory, yes)


@cli.command()
def backup(
    directory: Annotated[Path, typer.Argument(help="A new one, for all streams and buckets.")],
    nats: Nats = DEFAULT_URL,
) -> None:
    """Save all streams and buckets, while everything runs. Where there are roles, that is for `admin`."""
    from .backup import backup as start

    start(nats, directory)


@cli.command()
def restore(
    directory: Annotated[Path, typer.Argument(help="What `remuda backup` has made.")],
    nats: Nats = DEFAULT_URL,
) -> None:
    """Put a backup back, into NATS servers that hold nothing yet and before any service starts."""
    from .backup import put_back as start

    start(nats, directory)


@cli.command()
def queues(rm: Annotated[str, typer.Argument(help="rmID.")], nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """The queue trees of a resource manager: used, pending, guaranteed, maximum."""
    from .look import queues as show

    show(nats, rm, json)


@cli.command()
def explain(
    rm: Annotated[str, typer.Argument(help="rmID.")],
    application: Annotated[
        str | None, typer.Argument(metavar="APP", help="applicationID; default: one line per application that waits.")
    ] = None,
    key: Annotated[str | None, typer.Argument(help="allocationKey; default: every ask that waits.")] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Why asks wait: everything that is in the way and since when, what it needs and what there is, and the place in
    the order."""
    from .look import explain as show

    show(nats, rm, application, key, json)


@cli.command()
def story(
    what: Annotated[
        str,
        typer.Argument(metavar="ID", help="applicationID, allocationKey, applicationID/allocationKey, UUID or nodeID."),
    ],
    rm: Annotated[str | None, typer.Option(help="rmID; default: whoever has it.")] = None,
    nats: Nats = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Everything that ever happened to an application, an ask, an allocation or a node, and what caused it, out of the
    log. An application's has that of its asks and allocations, an allocation's that of its ask."""
    from .story import story as tell

    tell(nats, what, rm, json)


@cli.command()
def applications(
    rm: Annotated[str, typer.Argument(help="rmID.")],
    queue: Annotated[str | None, typer.Option(help="Only of this queue: its full path.")] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Applications: their state, what they hold and ask for; for some days those that ended or were rejected, too."""
    from .listings import applications as show

    show(nats, rm, queue, json)


@cli.command()
def nodes(rm: Annotated[str, typer.Argument(help="rmID.")], nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Nodes: their state, what is used of them, for which ask they are kept."""
    from .listings import nodes as show

    show(nats, rm, json)


@cli.command()
def usage(rm: Annotated[str, typer.Argument(help="rmID.")], nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """What users and groups use of each queue, and what they may use."""
    from .listings import usage as show

    show(nats, rm, json)


@config.command()
def check(
    file: Annotated[Path, typer.Argument(help="The queues.yaml.")],
    json: AsJson = False,
) -> None:
    """Check a queues.yaml without a running system. Every problem at once; exit code 1 if there is one."""
    from .check import check as verify

    verify(file, json)


@cli.command()
def declare(
    nats: Nats = DEFAULT_URL,
    replicas: Annotated[
        int, typer.Option(min=1, max=5, envvar="REMUDA_REPLICAS", help="Servers that keep each stream.")
    ] = 1,
) -> None:
    """Make or change the streams and buckets as this version wants them. Where there are roles, that is for `admin`,
    before the services of a new version start."""
    from .declare import declare as start

    start(nats, replicas)


@cli.command()
def keys(directory: Annotated[Path, typer.Argument(help="Where to write them.")] = KEYS) -> None:
    """Make a key for each role that has none, and server/accounts.conf: it tells the NATS servers who may do what."""
    from .access.command import make_keys

    make_keys(directory)


@rm_commands.command("add")
def rm_add(rm: Annotated[str, typer.Argument(help="rmID.")], keys: KeyDirectory = KEYS) -> None:
    """Make the key of a resource manager, and let it in."""
    from .access.command import add_rm

    add_rm(keys, rm)


@rm_commands.command("remove")
def rm_remove(rm: Annotated[str, typer.Argument(help="rmID.")], keys: KeyDirectory = KEYS) -> None:
    """Take the key of a resource manager away. What it has allocated stays."""
    from .access.command import remove_rm

    remove_rm(keys, rm)
