"""Commands about an archive (docs/history.md)."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import AsJson

Store = Annotated[
    str, typer.Argument(metavar="STORE", help="Where the archive is: a directory, or a URL like s3://bucket/prefix.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Of the object store, as archive.options. Repeatable."),
]


def list_archive(store: Store, options: Options = None, json: AsJson = False) -> None:
    """Show which RMs an archive has, from when to when, and how much."""
    from ..admin.archive import list_archive as start

    start(store, options or [], json)


def verify(
    store: Store,
    rm: Annotated[list[str] | None, typer.Argument(metavar="[RM]...", help="Only these. Default: all.")] = None,
    options: Options = None,
    json: AsJson = False,
) -> None:
    """Check every object of an archive, and that none is missing between two. Exits with 1 if there is damage."""
    from ..admin.archive import verify as start

    start(store, rm or [], options or [], json)
