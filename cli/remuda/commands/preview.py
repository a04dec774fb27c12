"""`remuda config preview`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..terminal import arguments
from .options import DEFAULT_URL, AsJson, DefaultRm, Nats

Passes = Annotated[int, typer.Option(min=1, max=20, help="Scheduling passes to play, a second apart.")]
Rows = Annotated[int, typer.Option(min=1, max=500, help="Rows of each list.")]


def preview(
    rm: DefaultRm,
    file: Annotated[Path, typer.Argument(help="The proposed queues.yaml.", callback=arguments.path)],
    passes: Passes = 3,
    rows: Rows = 20,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Show what a queues.yaml would do for a resource manager, and change nothing: queues that change, who would be
    over quota, applications that would be placed elsewhere, what the next passes would allocate and preempt."""
    from ..show.preview import preview as show

    show(nats, rm, file, passes, rows, json)
