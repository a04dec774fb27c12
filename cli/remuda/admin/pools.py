"""`remuda pool apply`, `set`, `delete`: change pools of Peloton's resource manager. For administrators."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remuda_bus.queries import peloton

from ..client.connections import bus_at
from ..errors import UserError
from ..terminal import arguments, event_loop
from .configuration import assignments


def apply(url: str, cluster: str, file: Path, as_json: bool) -> None:
    """All pools are then as the file says, or nothing changes. Raises UserError."""
    try:
        text = arguments.readable("", file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {error}") from None
    change(url, cluster, {"text": text}, as_json)


def set_keys(url: str, cluster: str, path: str, values: Sequence[str], as_json: bool) -> None:
    change(url, cluster, {"path": path, "set": assignments(values)}, as_json)


def delete(url: str, cluster: str, path: str, as_json: bool) -> None:
    change(url, cluster, {"path": path, "delete": True}, as_json)


def change(url: str, cluster: str, request: Mapping[str, Any], as_json: bool) -> None:
    async def ask() -> dict[str, Any]:
        async with bus_at(url) as bus:
            return await peloton.change_pools(bus, cluster, request)

    answer = event_loop.run(ask)
    if as_json:
        print(json.dumps(answer))
        return
    for line in answer["changes"] or ("nothing to change",):
        print(line)
