"""The command line `remuda`: the table of its commands."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .client.names import Named, OfRm
from .commands import act, administer, archive, configuration, history, keys, pools, settings, show, start
from .commands.options import ArchiveOptions, ArchiveStore
from .terminal import exit_status, quick_start
from .terminal.formats import with_formats, with_watch

cli = typer.Typer(name="remuda", no_args_is_help=True, pretty_exceptions_enable=False)

Function = Callable[..., Any]
# By the heading in the help.
COMMANDS: dict[str, tuple[Function, ...]] = {
    "Start": (start.init, start.up, start.run, start.demo, start.load),
    "Show": (
        show.status, show.top, show.queues, show.applications, show.nodes, show.topology, show.usage, show.budget,
        show.ledger, show.pools, show.explain, show.eta, show.promises, show.windows, show.story, show.events,
        show.action, show.dump, show.dead_letters,
    ),
    "Past": (history.diff, history.bisect, history.replay, history.shadow),
    "Act": (act.kill, act.move, act.hold, act.unhold, act.lend, act.drain, act.undrain, act.priority, act.release),
    "Administer": (
        administer.rebuild, administer.resume, administer.log, administer.backup, administer.restore,
        administer.declare, keys.keys, keys.cluster_keys,
    ),
}  # fmt: skip
# Those with commands of their own, which are below "Administer": their help, and their commands by name.
GROUPS: dict[str, tuple[str, dict[str, Function]]] = {
    "config": (
        "Check, preview and change queue configurations.",
        {
            "check": show.check, "preview": configuration.preview, "import": configuration.import_files,
            "get": configuration.get, "history": configuration.history, "show": configuration.show,
            "diff": configuration.diff, "apply": configuration.apply, "set": configuration.set_keys,
            "unset": configuration.unset_keys, "add-queue": configuration.add_queue,
            "remove-queue": configuration.remove_queue, "rollback": configuration.rollback,
            "confirm": configuration.confirm,
        },
    ),
    "settings": ("Show and check the settings of services.", {"show": settings.show, "check": settings.check}),
    "pool": (
        "Preview and change the pools of Peloton's resource manager.",
        {"apply": pools.apply, "preview": pools.preview, "set": pools.set_keys, "delete": pools.delete},
    ),
    "rm": (
        "Add, remove, forget and divide resource managers.",
        {"add": keys.add, "remove": keys.remove, "forget": administer.forget, "divide": administer.divide},
    ),
    "operator": (
        "Add, list and remove operators; set their groups.",
        {
            "add": keys.add_operator, "list": keys.list_operators, "groups": keys.set_groups,
            "front-end": keys.set_front_end, "log-levels": keys.set_log_levels, "remove": keys.remove_operator,
        },
    ),
    "archive": (
        "Show and check an archive of logs and inboxes.", {"list": archive.list_archive, "verify": archive.verify},
    ),
    "kubernetes": ("Check a Kubernetes cluster for what remuda needs.", {"check": administer.check_cluster}),
    "peloton": (
        "Add, list and remove clients of Peloton's resource manager over NATS.",
        {"add": keys.add_client, "list": keys.list_clients, "remove": keys.remove_client},
    ),
}  # fmt: skip
# What `remuda --help` says: a line for commands that belong together, by the same headings. The help of a command says
# the rest.
HELP: dict[str, dict[tuple[str, ...], str]] = {
    "Start": {
        ("init",): "Write commented first queues.yaml and remuda.yaml.",
        ("up", "run"): "Start all services on this machine; run one service.",
        ("demo", "load"): "Run a demonstration; submit a simulated workload.",
    },
    "Show": {
        ("status", "queues"): "Show services, cores, RMs; queues and what they use.",
        ("top", "usage", "ledger"): "Show use: live; by users and groups; in the past.",
        ("pools", "nodes", "windows"): "Show pools of Peloton; nodes; windows of time.",
        ("topology", "explain"): "Show racks, groups that wait; why asks wait.",
        ("applications", "story"): "Show applications; every fact about an item.",
        ("eta", "promises", "budget"): "Show when asks start; at the latest; budgets.",
        ("events", "action"): "Show new event records; decisions about actions.",
        ("dump", "dead-letters"): "Show all state as JSON; requests that failed.",
    },
    "Past": {
        ("diff", "bisect"): "Compare two moments; find when a condition began.",
        ("replay",): "Play a period again with changes: what would have been.",
        ("shadow",): "Show where another configuration decides otherwise.",
    },
    "Act": {
        ("kill", "move"): "End an application; move it to another queue.",
        ("priority", "release"): "Change an ask's priority; release an allocation.",
        ("hold", "unhold", "lend"): "Hold a queue; end that; lend quota to another one.",
        ("drain", "undrain"): "Drain a node, so that nothing starts there; end that.",
    },
    "Administer": {
        ("config", "kubernetes"): "Check and change configurations; check a cluster.",
        ("settings", "log"): "Show and check settings; change log levels for a while.",
        ("rm", "operator"): "Add and remove RMs and operators; divide, forget RMs.",
        ("pool", "peloton"): "Change pools of Peloton; add and remove its clients.",
        ("keys", "cluster-keys"): "Create keys; those of an installation on Kubernetes.",
        ("resume", "rebuild"): "End the halt of an RM; delete its log after a loss.",
        ("backup", "restore"): "Save all streams and buckets; load them again.",
        ("archive", "declare"): "Check archives; create streams for this version.",
    },
}
# These list something, so they have `--output` and, with `--watch`, are shown again and again.
LISTING = (
    show.status, show.queues, show.applications, show.nodes, show.topology, show.usage, show.budget, show.ledger,
    show.pools, show.explain, show.eta, show.promises, show.windows, show.action, show.story, show.dead_letters,
    configuration.history, configuration.show, configuration.diff, configuration.get, settings.show,
    keys.list_operators, keys.list_clients,
)  # fmt: skip
# The first argument is the RM, which may be left out while one is registered. Commands that delete or stop data of an
# RM have it named, and `lend`, which takes any number of amounts.
DEFAULT_RM = (
    show.queues, show.applications, show.nodes, show.topology, show.usage, show.budget, show.ledger, show.explain,
    show.eta, show.promises, show.windows, show.action, show.dump, act.kill, act.move, act.hold, act.unhold,
    act.drain, act.undrain, act.priority, act.release, configuration.preview,
)  # fmt: skip
# Events follow by themselves (`--follow`); files and archives are looked at once.
LISTING_ONCE = (show.events, show.check, archive.list_archive)


def _add(application: typer.Typer, name: str, function: Function, names: type[TyperCommand], panel: str | None) -> None:
    """`names`: the class of the command, unless its RM may be left out."""
    shown = with_formats(function) if function in (*LISTING, *LISTING_ONCE) else function
    command = application.command(name, cls=OfRm if function in DEFAULT_RM else names, rich_help_panel=panel)
    command(with_watch(shown) if function in LISTING else shown)


for panel, functions in COMMANDS.items():
    for function in functions:
        _add(cli, function.__name__.replace("_", "-"), function, Named, panel)
for group_name, (described, commands) in GROUPS.items():
    group = typer.Typer(help=described, no_args_is_help=True)
    for name, function in commands.items():
        _add(group, name, function, Named if group_name == "config" else TyperCommand, None)
    cli.add_typer(group, name=group_name, rich_help_panel="Administer")


def app() -> None:
    """Entry point."""
    # A start makes many objects and hardly any cycles. `remuda_replication.process` sets what a service keeps.
    gc.set_threshold(100_000, 50, 50)
    # pydantic would read the metadata of all installed packages, and none of them changes our models.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    exit_status.run_command(quick_start.group_of(cli, HELP))


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"remuda {version('remuda-scheduler')}")
        raise typer.Exit


@cli.callback()
def main(
    context: typer.Context,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Show what there was then: a time, a duration before now, or a commit. Needs an archive.",
        ),
    ] = None,
    archive: ArchiveStore = None,
    archive_options: ArchiveOptions = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A universal resource scheduler: resource managers report nodes and submit asks over NATS, remuda allocates."""
    from .client import past

    if at is not None and context.invoked_subcommand not in past.COMMANDS:
        raise typer.BadParameter(f"only of {', '.join(past.COMMANDS)}", param_hint="--at")
    past.select(at, archive, tuple(archive_options or ()))
