"""Commands about the past of a resource manager, from an archive (docs/history.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..client import completion
from ..terminal import arguments
from .options import ArchiveOptions, ArchiveStore, AsJson, argument, path_argument, path_option

# The RM may have no record any more, so it is always named.
_Rm = Annotated[str, argument("RM", "rmID of the resource manager.", arguments.rm_id, completion.rms)]
_Since = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN", help="Where to begin: a time, a duration before now, or a commit. Default: the first."
    ),
]
_Until = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Where to end, likewise. Default: the end of the archive.")
]


def diff(
    rm: _Rm,
    since: Annotated[str, typer.Argument(metavar="WHEN", help="A time, a duration before now, or a commit.")],
    until: Annotated[str | None, typer.Argument(metavar="[WHEN]", help="A later one. Default: the end.")] = None,
    archive: ArchiveStore = None,
    archive_options: ArchiveOptions = None,
    json: AsJson = False,
) -> None:
    """Show what changed between two moments: queues, use, nodes, configuration, and who did it."""
    from ..show.past import diff as show

    show(archive, archive_options or [], rm, since, until, json)


def bisect(
    rm: _Rm,
    condition: Annotated[
        str,
        typer.Argument(
            help="Such as 'queue root.a: allocated.vcore < guaranteed.vcore' or 'node n1: allocations > 9'."
        ),
    ],
    since: _Since = None,
    until: _Until = None,
    archive: ArchiveStore = None,
    archive_options: ArchiveOptions = None,
    json: AsJson = False,
) -> None:
    """Find the first commit after which a condition holds, and what made it hold. Exits with 1 if it never does."""
    from ..show.past import bisect as show

    show(archive, archive_options or [], rm, condition, since, until, json)


def replay(
    rm: _Rm,
    since: _Since = None,
    until: _Until = None,
    queues: Annotated[Path | None, path_option("With this queues.yaml.", metavar="FILE")] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUOTA",
            help="root.prod:max.vcore=60, or =+8 or =-8: with another maximum or guarantee of a queue. Repeatable.",
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODES",
            help="+20:vcore=64,memory=256Gi or +5:like=n1: more nodes; -rack7: without a node, or all that begin so or "
            "have this attribute. Repeatable.",
        ),
    ] = None,
    node_sort: Annotated[str | None, typer.Option(metavar="fair|binpacking", help="Sort nodes like this.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="user:NAME|queue:PATH|application:ID", help="Without this work. Repeatable."),
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option(metavar="xFACTOR", help="With so many times as many asks: x1.3.")
    ] = None,
    version: Annotated[
        Path | None, path_option("By another version, from its wheels, in a process.", metavar="WHEEL|DIR")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTIONS", help="Another variant beside, such as '--nodes +20:like=n1'. Repeatable."),
    ] = None,
    on_preemption: Annotated[
        str | None,
        typer.Option(
            metavar="requeue|lose", help="What the RM does with preempted work. Default: what it did most often."
        ),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            help="Such as 'wait.p95[root.prod] < 5m': find the smallest number of nodes, with --nodes +?:…, or the "
            "smallest change of a quota, with --quota QUEUE:max.RESOURCE=+?"
        ),
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="With --goal: try at most so many nodes or steps.")
    ] = 1_024,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Only decide every commit again on the state it met, with --queues or --version too, and compare. "
            "Exits with 1 if one differs.",
        ),
    ] = False,
    every: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Decide again only one of so many stretches of commits; with --exact --queues one of so many commits.",
        ),
    ] = 1,
    html: Annotated[Path | None, path_option("Also write one page with charts.", metavar="FILE")] = None,
    applications: Annotated[
        bool, typer.Option("--applications", help="With --json: also the mean wait of each application.")
    ] = False,
    archive: ArchiveStore = None,
    archive_options: ArchiveOptions = None,
    json: AsJson = False,
) -> None:
    """Play a period again with changes: arrivals, run times and nodes as they were, decisions made anew."""
    from ..show.past import when
    from ..show.replay import Options, Period, replay_exactly
    from ..show.replay import replay as show

    given = Options(
        version, queues, tuple(quota or ()), tuple(nodes or ()), node_sort, tuple(without or ()), arrivals
    )  # fmt: skip
    period = Period(archive, archive_options or [], rm, when(since) if since is not None else None, when(until))
    if exact:
        replay_exactly(period, given, every, json)
    else:
        show(period, given, variant or [], on_preemption, goal, most, html, json, applications, every)


def shadow(
    directory: Annotated[Path, path_argument("The directory of the shadow, shadow.directory.", "[DIR]")] = Path(
        "remuda-shadow"
    ),
    json: AsJson = False,
) -> None:
    """Show where a shadow (`remuda run shadow`) decides otherwise, and what the effect would have been."""
    from ..show.replay import shadow as show

    show(directory, json)
