"""Commands that show something and change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from remuda_bus.subjects import is_peloton

from .. import limits
from ..client import completion
from ..terminal import arguments
from .options import (
    DEFAULT_URL,
    AnyRm,
    AsJson,
    DefaultRm,
    DefaultRmOrCluster,
    Nats,
    PendingApplication,
    PendingKey,
    Plain,
    Yes,
    argument,
    path_argument,
)


def status(nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Show services, storage, cores, registered resource managers, halts and dead letters."""
    from ..show.status import status as show

    show(nats, json)


def queues(
    rm: DefaultRm,
    draining: Annotated[
        bool,
        typer.Option("--draining", help="Only draining queues: since when, what runs there, who administers them."),
    ] = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show the queues of a resource manager: used, pending, guaranteed and maximum resources."""
    if draining:
        from ..show.queues import draining as show_draining

        show_draining(nats, rm, json)
        return
    from ..show.queues import queues as show

    show(nats, rm, json)


def pools(
    path: Annotated[str, argument("[PATH]", "Of a pool: only it and those below it.", arguments.pool)] = "/",
    cluster: Annotated[
        str, typer.Option(help="Cluster of the resource manager.", callback=arguments.rm_id)
    ] = "default",
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show the pools of Peloton's resource manager: what tasks hold and want, entitlement, reservation, limit."""
    from ..show.peloton import pools as show

    show(nats, cluster, path, json)


def explain(
    rm: DefaultRmOrCluster,
    application: PendingApplication = None,
    key: PendingKey = None,
    what_if: Annotated[
        bool, typer.Option(help="Also the smallest changes that would let the ask run. Needs KEY; takes seconds.")
    ] = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show why asks are pending: each constraint with what the ask needs and what is available, since when, and who
    holds it; earlier constraints; the ask's position in its queue; and when it will start.

    With one resource manager registered, `remuda explain APP [KEY]` is of it. A first name that is an RM's is the RM.

    `remuda explain pod NAMESPACE/NAME [RM]`: of a Kubernetes pod (RM: kubernetes).
    `remuda explain peloton.CLUSTER TASK`: of a task, a run or a gang (gang/NUMBER) of Peloton's job managers."""
    if rm == "pod" and application is not None and "/" in application:
        from ..show.explain import explain_pod

        explain_pod(nats, key or "kubernetes", application, json, what_if)
        return
    if is_peloton(rm):
        from ..show.peloton import cluster_of
        from ..show.peloton import explain as explain_task

        if application is None:
            raise typer.BadParameter("needs the ID of a task, a run or a gang", param_hint="APP")
        explain_task(nats, cluster_of(rm), application, json)
        return
    from ..show.explain import explain as show

    if what_if and key is None:
        raise typer.BadParameter("needs APP and KEY: one ask", param_hint="--what-if")
    show(nats, rm, application, key, json, what_if)


def top(rm: AnyRm = None, nats: Nats = DEFAULT_URL, plain: Plain = False) -> None:
    """Show queues, nodes, allocations a second and the commonest reasons to wait, live, until Ctrl-C. Without a
    terminal, or with --plain, once."""
    from ..show.top import top as show

    show(nats, rm, plain)


def events(
    of_rm: AnyRm = None,
    rm: Annotated[
        str | None,
        typer.Option(help="As RM.", hidden=True, callback=arguments.rm_id, autocompletion=completion.rms),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then each new one, until Ctrl-C.")] = False,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, max=limits.EVENTS_SHOWN, help="Of the newest so many of all RMs.")
    ] = 20,
    nats: Nats = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show the newest event records: what was added, changed and removed, oldest first."""
    from ..show.events import events as show

    if rm is not None and of_rm is not None:
        raise typer.BadParameter(f"{rm!r} is named beside the RM {of_rm!r}: expected one of them", param_hint="--rm")
    show(nats, of_rm or rm, count, follow, json)


def dump(rm: DefaultRm, nats: Nats = DEFAULT_URL) -> None:
    """Show all of a resource manager's state as one JSON document: what the scheduler knows, and what the resource
    manager itself says."""
    from ..show.dump import dump as show

    show(nats, rm)


def story(
    what: Annotated[
        str,
        argument(
            "[RM] ID",
            "applicationID, allocationKey, applicationID/allocationKey, UUID, nodeID or full name of a queue; "
            "of Peloton: a task, a run, a pool (by its ID or path), or gang/NUMBER. The name of an RM may come first.",
            arguments.story_id,
            completion.story_ids,
        ),
    ],
    of_rm: Annotated[
        str | None,
        typer.Argument(hidden=True, callback=arguments.story_id, autocompletion=completion.story_ids),
    ] = None,
    rm: Annotated[
        str | None,
        typer.Option(
            help="rmID, or peloton.CLUSTER. Default: every registered RM, and every cluster of Peloton.",
            callback=arguments.log_id,
            autocompletion=completion.rms,
        ),
    ] = None,
    nats: Nats = DEFAULT_URL,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show every fact in the log about an application, ask, allocation, node or queue, with its cause. The story of an
    application includes its asks and allocations; that of an allocation includes its ask.

    Resource managers of Peloton show what their logs say, if they run."""
    if of_rm is not None:
        if rm is not None:
            raise typer.BadParameter(f"{rm!r} is named beside the RM {what!r}: expected one of them", param_hint="--rm")
        what, rm = of_rm, arguments.log_id(what)
    if rm is not None and is_peloton(rm):
        from ..show.peloton import cluster_of
        from ..show.peloton import story as story_of_task

        story_of_task(nats, cluster_of(rm), what, json)
        return
    from ..show.story import story as show

    show(nats, what, rm, json)


def applications(
    rm: DefaultRm,
    queue: Annotated[
        str | None,
        typer.Option(
            help="Only applications of this queue (full path).",
            callback=arguments.queue,
            autocompletion=completion.queues,
        ),
    ] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show applications: state, allocated and pending resources. Includes recently completed and rejected ones."""
    from ..show.listings import applications as show

    show(nats, rm, queue, json)


def nodes(rm: DefaultRm, nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Show nodes: status, used resources, and the ask for which a node is reserved. With `-o wide` also a sign for each
    device, and the domain."""
    from ..show.listings import nodes as show

    show(nats, rm, json)


def eta(
    rm: DefaultRm,
    application: PendingApplication = None,
    key: PendingKey = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show when waiting asks will start: in the middle, and between which times in four of five cases; their position;
    and how often such intervals have held. Takes seconds."""
    from ..show.forecasts import eta as show

    show(nats, rm, application, key, json)


def promises(rm: DefaultRm, nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Show reserved nodes: for which ask, when it starts there at the latest, what was promised first, and why that has
    changed."""
    from ..show.forecasts import promises as show

    show(nats, rm, json)


def budget(rm: DefaultRm, nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Show budgets of queues: what is used in the present period, what running work may still use, what is left, and
    when it is used up at the rate of the period so far."""
    from ..show.budgets import budgets as show

    show(nats, rm, json)


def windows(rm: DefaultRm, nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Show the windows of the calendar: maintenance, nodes kept for a queue, settings by time of day; when each comes,
    and what still runs on its nodes."""
    from ..show.listings import windows as show

    show(nats, rm, json)


def topology(
    rm: DefaultRm,
    domain: Annotated[
        str | None,
        argument(
            "[DOMAIN]",
            "A domain by its path, such as b2/r7, or the end of it: only it, those below it, and their nodes.",
            arguments.domain,
        ),
    ] = None,
    with_nodes: Annotated[
        bool, typer.Option("--nodes", help="Also the nodes, where there are more than fit a screen or two.")
    ] = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show racks and other domains as a tree: what is used, empty nodes, devices that are in use and free, what of them
    no ask can use; and the groups that wait for a domain."""
    from ..show.topology import topology as show

    show(nats, rm, domain, with_nodes, json)


def usage(
    rm: DefaultRm,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Also what users have used since then, from the ledger: a time, or 7d."),
    ] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show what users and groups use of each queue, and their limits; with --since also what users have used."""
    from ..show.listings import usage as show

    show(nats, rm, since, json)


def ledger(
    rm: DefaultRm,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="From the hour of that time on: a time, or a duration such as 7d.")
    ] = "24h",
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Up to the hour of that time. Default: the last closed hour.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="A row for each: partition, queue, user, application, tags, tag:NAME, with commas between them. "
            "Default: queue.",
        ),
    ] = None,
    per: Annotated[str, typer.Option(help="A row for each hour, day, month, or all.")] = "all",
    zone: Annotated[str, typer.Option(help="Time zone of days and months, such as Europe/Berlin.")] = "UTC",
    queue: Annotated[str, typer.Option(help="Only this queue and those below it.")] = "",
    user: Annotated[str, typer.Option(help="Only this user.")] = "",
    application: Annotated[str, typer.Option(help="Only this application.")] = "",
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prices, for a column with costs (docs/time.md).")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a row for each resource.")] = False,
    focus: Annotated[
        bool, typer.Option("--focus", help="With the columns of FOCUS 1.2, by application. Without --parquet as CSV.")
    ] = False,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file. Needs the extra parquet.")
    ] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show what was used in closed hours, by queue, user, application or tags, and what of it was wasted: exactly, from
    the ledger that events services keep with events.ledger."""
    from ..show.ledger import Asked
    from ..show.ledger import ledger as show

    asked = Asked(since, until, by, per, zone, queue, user, application, prices, csv, focus, parquet)
    show(nats, rm, asked, json)


def action(
    rm: DefaultRm,
    action_id: Annotated[
        str | None, argument("ID", "ID of the action. Default: all.", arguments.action_id, completion.actions)
    ] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show what was decided about the actions of operators, the last 1,000 of a resource manager. Of one action: exit
    code 1 if it was refused, 3 if no decision is known."""
    from ..show.outcomes import outcomes as show

    show(nats, rm, action_id, json)


def dead_letters(
    rm: AnyRm = None,
    letter: Annotated[
        int | None,
        typer.Argument(
            metavar="NUMBER",
            min=1,
            max=2**63 - 1,
            help="Show this dead letter with its content.",
            autocompletion=completion.dead_letters,
        ),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete this dead letter, or all of the RM. Needs the role admin.")
    ] = False,
    yes: Yes = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show the newest 50 requests that could not be processed, with the reason."""
    from ..show.dead_letters import dead_letters as show

    show(nats, rm, letter, forget, yes, json)


def check(
    file: Annotated[Path, path_argument("The queues.yaml, or a ConfigMap or values of Helm with it.")],
    json: AsJson = False,
) -> None:
    """Check a queues.yaml without a running system. Prints every problem; exit code 1 if there is one. Of a valid file,
    prints what has no effect, and which versions of Apache YuniKorn a key or value is of."""
    from ..show.config_check import check as verify

    verify(file, json)
