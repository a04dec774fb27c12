"""Commands that show and change versions of the queue configuration.

Where keys are in use, a change needs the key of an operator (`remuda operator add`). Without keys, the operator is the
user of the operating system."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import limits
from ..client import completion
from ..terminal import arguments
from ..terminal.formats import parameters_of, with_parameters
from .options import DEFAULT_URL, AsJson, DefaultRm, Nats, Yes, argument, path_argument, path_option

File = Annotated[Path, path_argument("The queues.yaml.", "FILE")]
Number = Annotated[
    int,
    typer.Argument(
        metavar="N",
        min=1,
        max=limits.LARGEST_VERSION,
        help="Number of a version.",
        autocompletion=completion.versions,
    ),
]
OfRm = Annotated[
    str | None,
    typer.Option(
        "--rm",
        help="Versions of the text that this resource manager has brought. Default: of the file.",
        callback=arguments.rm_id,
        autocompletion=completion.rms,
    ),
]
Message = Annotated[str, typer.Option("--message", "-m", help="Why, for the history.")]
Base = Annotated[
    int | None,
    typer.Option(
        min=0, max=limits.LARGEST_VERSION, help="Refuse the change unless this version is in force.", metavar="N"
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Although the file has an edit that is not in force, or cannot be read.")
]
For = Annotated[
    str | None,
    typer.Option("--for", help="Roll the change back after this time (30m), unless it is confirmed.", metavar="TIME"),
]
QueuePath = Annotated[
    str, argument("QUEUE", "Path of the queue, such as root.prod.", arguments.queue, completion.queues_of_any)
]
Partition = Annotated[str, typer.Option(help="Partition of the queue.")]
Values = Annotated[
    list[str], typer.Argument(metavar="KEY=VALUE...", help="Such as max.vcore=64, maxapplications=10, submitacl='*'.")
]
Passes = Annotated[int, typer.Option(min=1, max=20, help="Scheduling passes to play, a second apart.")]
Rows = Annotated[int, typer.Option(min=1, max=500, help="Rows of each list.")]


def get(nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Print the text in force."""
    from ..show.versions import get as show

    show(nats, json)


def history(rm: OfRm = None, nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """List the versions that are kept: number, time, origin, operator, message."""
    from ..show.versions import history as show

    show(nats, rm, json)


def show(number: Number, rm: OfRm = None, nats: Nats = DEFAULT_URL, json: AsJson = False) -> None:
    """Print a version: what it changed, and its text."""
    from ..show.versions import show as print_version

    print_version(nats, number, rm, json)


def diff(
    before: Number,
    after: Annotated[
        str,
        typer.Argument(metavar="M|FILE", help="Number of a version, or a file.", autocompletion=completion.versions),
    ],
    rm: OfRm = None,
    lines: Annotated[bool, typer.Option("--lines", help="Compare the texts by line, not by setting.")] = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Compare two versions, or a version with a file."""
    from ..show.versions import diff as compare

    file = arguments.path(Path(after))
    is_number = after.isdecimal() and len(after) < 16
    compare(nats, before, int(after) if is_number or file is None else file, rm, lines, json)


def preview(
    rm: DefaultRm,
    file: Annotated[Path, path_argument("The proposed queues.yaml.")],
    passes: Passes = 3,
    rows: Rows = 20,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show what a queues.yaml would do for a resource manager, and change nothing: queues that change, who would be
    over quota, applications that would be placed elsewhere, what the next passes would allocate and preempt."""
    from ..show.preview import preview as show

    show(nats, rm, file, passes, rows, json)


def apply(
    file: File,
    message: Message = "",
    base: Base = None,
    staged_for: For = None,
    overwrite: Overwrite = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="First show what it would do for the resource managers, and ask.")
    ] = False,
    yes: Yes = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Put the text of a file in force, and write it to the file of the configuration service."""
    from ..admin.configuration import apply as put_in_force

    if preview:
        from ..admin.preview_first import preview_first

        preview_first(nats, file, yes)
    put_in_force(nats, file, _request(message, base, staged_for, overwrite), json)


def _options(
    partition: Partition = "default",
    message: Message = "",
    base: Base = None,
    staged_for: For = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """The options of every edit."""


def _edit(described: Callable[..., list[dict[str, Any]]]) -> Callable[..., None]:
    """Makes a command of a function of a queue and an edit's own arguments, which returns the edits."""

    @functools.wraps(described)
    def run(
        partition: str, message: str, base: int | None, staged_for: str | None, nats: str, json: bool, **own: Any
    ) -> None:
        from ..admin.configuration import edit

        edits = [{**one, "queue": own["queue"], "partition": partition} for one in described(**own)]
        edit(nats, edits, _request(message, base, staged_for), json)

    return with_parameters(run, [*parameters_of(described), *parameters_of(_options)])


def _assigned(values: list[str]) -> dict[str, str]:
    from ..admin.configuration import assignments

    return assignments(values)


@_edit
def set_keys(queue: QueuePath, values: Values) -> list[dict[str, Any]]:
    """Set keys of a queue. Comments and order of the text stay."""
    return [{"do": "set", "key": key, "value": value} for key, value in _assigned(values).items()]


@_edit
def unset_keys(
    queue: QueuePath,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Such as max.vcore, maxapplications.")],
) -> list[dict[str, Any]]:
    """Remove keys of a queue."""
    return [{"do": "unset", "key": key} for key in keys]


@_edit
def add_queue(
    queue: QueuePath,
    values: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="As of `set`.")] = None,
) -> list[dict[str, Any]]:
    """Add a queue."""
    return [{"do": "add", "values": _assigned(values or [])}]


@_edit
def remove_queue(queue: QueuePath) -> list[dict[str, Any]]:
    """Remove a queue with all queues below it. It drains while applications run there."""
    return [{"do": "remove"}]


def rollback(
    number: Number,
    message: Message = "",
    base: Base = None,
    overwrite: Overwrite = False,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Put the text of an earlier version in force again, as a new version. Ends a staged change."""
    from ..admin.configuration import change

    request = {"version": number, **_request(message, base, None, overwrite)}
    change(nats, "rollback", request, json, f"version {number}")


def confirm(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[N]", min=1, max=limits.LARGEST_VERSION, help="The staged version. Default: whichever it is."
        ),
    ] = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Keep the staged change."""
    from ..admin.configuration import change

    change(nats, "confirm", {"version": number}, json)


def import_files(
    files: Annotated[list[Path], argument("FILE", "Files of one scheduler. -: stdin.", arguments.paths)],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SOURCE", help="yunikorn, kueue, slurm or volcano. Default: by content."),
    ] = None,
    output: Annotated[Path | None, path_option("The queues.yaml to write. Default: stdout.", "--output")] = None,
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNTS",
            help="What all nodes have, such as vcore=64,memory=256Gi: the base of shares and weights.",
        ),
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Print the report only, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --output.")] = False,
    json: AsJson = False,
) -> None:
    """Translate a configuration of YuniKorn, Kueue, Slurm or Volcano, and report what has no counterpart."""
    from ..admin.import_configuration import import_configuration

    import_configuration(files, source, output, capacity, report, force, json)


def _request(message: str, base: int | None, staged_for: str | None, overwrite: bool = False) -> dict[str, Any]:
    for_ms = int(arguments.duration_s(staged_for) * 1_000) if staged_for is not None else 0
    return {"message": message, "base": base, "for_ms": for_ms, "overwrite": overwrite}
