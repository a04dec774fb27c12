"""The command line `remuda`: the table of its commands."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .client.names import Named, OfRm
from .commands import act, administer, archive, configuration, history, keys, pools, settings, show, start
from .commands.options import ArchiveOptions, ArchiveStore
from .terminal import exit_status, quick_start
from .terminal.formats import with_formats, with_watch

cli = typer.Typer(name="remuda", no_args_is_help=True, pretty_exceptions_enable=False)
config_commands = typer.Typer(help="Check, preview and change queue configurations.", no_args_is_help=True)
settings_commands = typer.Typer(help="Show and check the settings of services.", no_args_is_help=True)
pool_commands = typer.Typer(help="Preview and change the pools of Peloton's resource manager.", no_args_is_help=True)
rm_commands = typer.Typer(help="Add, remove, forget and divide resource managers.", no_args_is_help=True)
peloton_commands = typer.Typer(
    help="Add, list and remove clients of Peloton's resource manager over NATS.", no_args_is_help=True
)
kubernetes_commands = typer.Typer(help="Check a Kubernetes cluster for what remuda needs.", no_args_is_help=True)
archive_commands = typer.Typer(help="Show and check an archive of logs and inboxes.", no_args_is_help=True)
operator_commands = typer.Typer(help="Add, list and remove operators; set their groups.", no_args_is_help=True)

# By the heading in the help.
COMMANDS: dict[str, tuple[Callable[..., Any], ...]] = {
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


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    if function in LISTING:
        return with_watch(with_formats(function))
    return with_formats(function) if function in LISTING_ONCE else function


def _class_of(function: Callable[..., Any]) -> type[Named]:
    return OfRm if function in DEFAULT_RM else Named


for panel, functions in COMMANDS.items():
    for function in functions:
        named = cli.command(function.__name__.replace("_", "-"), cls=_class_of(function), rich_help_panel=panel)
        named(_with_options(function))
config_commands.command("check")(_with_options(show.check))
config_commands.command("preview", cls=OfRm)(configuration.preview)
for name, function in configuration.COMMANDS.items():
    config_commands.command(name, cls=Named)(_with_options(function))
settings_commands.command("show")(_with_options(settings.show))
settings_commands.command("check")(settings.check)
pool_commands.command("apply")(pools.apply)
pool_commands.command("preview")(pools.preview)
pool_commands.command("set")(pools.set_keys)
pool_commands.command("delete")(pools.delete)
archive_commands.command("list")(_with_options(archive.list_archive))
archive_commands.command("verify")(archive.verify)
rm_commands.command("add")(keys.add)
rm_commands.command("remove")(keys.remove)
rm_commands.command("forget")(administer.forget)
rm_commands.command("divide")(administer.divide)
operator_commands.command("add")(keys.add_operator)
operator_commands.command("list")(_with_options(keys.list_operators))
operator_commands.command("groups")(keys.set_groups)
operator_commands.command("front-end")(keys.set_front_end)
operator_commands.command("log-levels")(keys.set_log_levels)
operator_commands.command("remove")(keys.remove_operator)
kubernetes_commands.command("check")(_with_options(administer.check_cluster))
peloton_commands.command("add")(keys.add_client)
peloton_commands.command("list")(_with_options(keys.list_clients))
peloton_commands.command("remove")(keys.remove_client)
cli.add_typer(config_commands, name="config", rich_help_panel="Administer")
cli.add_typer(settings_commands, name="settings", rich_help_panel="Administer")
cli.add_typer(pool_commands, name="pool", rich_help_panel="Administer")
cli.add_typer(rm_commands, name="rm", rich_help_panel="Administer")
cli.add_typer(operator_commands, name="operator", rich_help_panel="Administer")
cli.add_typer(archive_commands, name="archive", rich_help_panel="Administer")
cli.add_typer(kubernetes_commands, name="kubernetes", rich_help_panel="Administer")
cli.add_typer(peloton_commands, name="peloton", rich_help_panel="Administer")


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
