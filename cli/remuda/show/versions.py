"""`remuda config get`, `history`, `show`, `diff`: the versions of the configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from remuda_bus.bus import Bus
from remuda_config import Problem, read_file
from remuda_operations.queries import configuration
from remuda_operations.queries.configuration import Document

from ..client.connections import answered
from ..client.known_rms import check_rm
from ..errors import UserError
from ..terminal.output import console, is_wide
from ..terminal.units import time_of


def get(url: str, as_json: bool) -> None:
    """Print the text in force, ready to be edited and applied."""
    answer = _query(url, "get", {})
    if as_json:
        print(json.dumps(answer))
    else:
        sys.stdout.write(answer["text"])


def history(url: str, rm: str | None, as_json: bool) -> None:
    answer = _query(url, "history", {"rm": rm} if rm else {}, rm)
    if as_json:
        print(json.dumps(answer))
        return
    table = Table("version", "at", "from", "by", "checksum", "message", box=None, pad_edge=False)
    if is_wide():
        for name in ("bytes", "restores", "staged until"):
            table.add_column(name)
    for version in answer["versions"]:
        is_active = version["number"] == answer.get("active")
        until = time_of(version["until_ms"]) if version.get("until_ms") else ""
        more = (f"{version.get('text_bytes', 0):,}", str(version.get("restores") or ""), until)
        table.add_row(
            f"{version['number']}{' *' if is_active else ''}", time_of(version["at_ms"]), version["origin"],
            version.get("by", ""), version["checksum"] if is_wide() else version["checksum"][:12],
            _message(version, is_active), *(more if is_wide() else ()),
        )  # fmt: skip
    console.print(table)
    if not answer["versions"]:
        console.print("no version is kept")


def show(url: str, number: int, rm: str | None, as_json: bool) -> None:
    answer = _query(url, "show", {"version": number, **({"rm": rm} if rm else {})})
    if as_json:
        print(json.dumps(answer))
        return
    version = answer["version"]
    by = f" by {version['by']}" if version.get("by") else ""
    print(f"# version {number}, {version['origin']}{by}, {time_of(version['at_ms'])}")
    print(f"# checksum {version['checksum']}")
    for line in [*_message(version, False).splitlines(), *version["changes"]]:
        print(f"# {line}")
    sys.stdout.write(answer["text"])


def diff(url: str, before: int, after: int | Path, rm: str | None, lines: bool, as_json: bool) -> None:
    """`after`: a version, or a file."""
    request: dict[str, Any] = {"from": before, **({"rm": rm} if rm else {})}
    if isinstance(after, Path):
        content = read_file(after)
        if isinstance(content, Problem):
            raise UserError(content.message)
        request["text"] = content.decode(errors="replace")
    else:
        request["to"] = after
    answer = _query(url, "diff", request)
    if as_json:
        print(json.dumps(answer))
        return
    for line in answer["lines" if lines else "changes"]:
        print(line)
    if not answer["lines"]:
        print("the texts are the same")
    elif not answer["changes"] and not lines:
        print("no setting differs; --lines shows the lines that do")


def _message(version: Mapping[str, Any], is_active: bool) -> str:
    parts = [version["message"]] if version.get("message") else []
    if confirmed := version.get("confirmed_by"):
        parts.append(f"confirmed by {confirmed}")
    elif until_ms := version.get("until_ms"):
        parts.append(f"staged until {time_of(until_ms)}" + (", not confirmed yet" if is_active else ", not confirmed"))
    return "; ".join(parts)


def _query(url: str, kind: str, request: Mapping[str, Any], rm: str | None = None) -> Document:
    """`rm`: the versions are this one's. Raises UserError if there are none, and no such RM."""

    async def ask(bus: Bus) -> Document:
        answer = await configuration.query(bus, kind, request)
        if rm is not None and not answer["versions"]:
            await check_rm(bus, rm)
        return answer

    return answered(url, ask)
