"""`remuda pool apply`, `set`, `delete`: change pools of Peloton's resource manager. For operators in its scheduler ACL,
and for administrators of the system."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remuda_bus.nats import Access
from remuda_operations.queries import peloton
from remuda_peloton.shell.pools_file import PoolsFileError, fields_of_respool

from ..client.connections import answered
from ..errors import UserError
from ..show.pool_preview import show
from ..terminal import arguments
from .asking import ask, check_that_it_can_ask
from .configuration import assignments


def apply(url: str, cluster: str, file: Path, previews: bool, yes: bool, as_json: bool) -> None:
    """Makes all pools as the file says, or changes nothing. `previews`: shows the effects and asks first, unless
    `yes`. Raises UserError.
    """
    text = text_of(file)
    if previews:
        check_that_it_can_ask(yes)
        show(ask_preview(url, cluster, text), str(file))
        ask(f"Apply {file}?", yes)
    change(url, cluster, {"text": text}, as_json)


def preview(url: str, cluster: str, file: Path, as_json: bool) -> None:
    """Shows the effects of a file. Raises UserError, also for what the application would refuse."""
    found = ask_preview(url, cluster, text_of(file))
    if as_json:
        print(json.dumps(found))
        return
    show(found, str(file))


def ask_preview(url: str, cluster: str, text: str) -> dict[str, Any]:
    return answered(url, lambda bus: peloton.preview_pools(bus, cluster, text))


def text_of(file: Path) -> str:
    """Reads a file. Raises UserError."""
    try:
        return arguments.readable("", file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {error}") from None


def set_keys(url: str, cluster: str, path: str, values: Sequence[str], file: Path | None, as_json: bool) -> None:
    """`file`: a pool as Peloton's own command line reads it; `values` count before it. Raises UserError."""
    try:
        fields = fields_of_respool(text_of(file)) if file is not None else {}
    except PoolsFileError as error:
        raise UserError(f"{file}: {error}") from None
    if not values and file is None:
        raise UserError("expected KEY=VALUE, such as cpu.limit=64, or --file FILE")
    change(url, cluster, {"path": path, "set": {**fields, **assignments(values)}}, as_json)


def delete(url: str, cluster: str, path: str, as_json: bool) -> None:
    change(url, cluster, {"path": path, "delete": True}, as_json)


def change(url: str, cluster: str, request: Mapping[str, Any], as_json: bool) -> None:
    has_key = Access.from_environment().seed is not None
    by = peloton.change_pools_by_key if has_key else peloton.change_pools
    answer = answered(url, lambda bus: by(bus, cluster, request))
    if as_json:
        print(json.dumps(answer))
        return
    for line in answer["changes"] or ("nothing to change",):
        print(line)
