"""`remuda config apply`, `set`, `rollback` and so on: change the configuration, and show which version is in force."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_config import Invalid, Problem, read_file
from remuda_config.load import decode
from remuda_operations.queries import configuration
from remuda_operations.queries.configuration import Document

from .. import limits
from ..client.connections import answered
from ..client.operators import operator
from ..errors import UserError
from ..terminal.arguments import quoted
from ..terminal.output import console
from ..terminal.units import time_of


def apply(url: str, file: Path, request: Mapping[str, Any], as_json: bool) -> None:
    """Puts the text of a file in force. Raises UserError."""
    content = read_file(file)
    if isinstance(content, Problem):
        raise UserError(content.message)
    try:
        text = decode(content)
    except Invalid as invalid:
        raise UserError(f"{file}: {invalid}") from None
    change(url, "update", {"text": text, **request}, as_json, str(file))


def edit(url: str, edits: Sequence[Mapping[str, Any]], request: Mapping[str, Any], as_json: bool) -> None:
    change(url, "update", {"edits": list(edits), **request}, as_json, "the edited text")


async def configured_rms(bus: Bus) -> list[Document]:
    """The resource managers that the configuration service knows, each with what it has. Raises UserError."""
    try:
        answer = await bus.request(subjects.CURRENT_CONFIGURATIONS, timeout_s=limits.CONFIGURATION_ANSWERS_WITHIN_S)
    except BusError as error:
        raise UserError(f"the configuration service does not answer: {error}") from None
    found: list[Document] = json.loads(answer.payload)["rms"]
    return found


def assignments(given: Sequence[str]) -> dict[str, str]:
    """Reads `key=value` of each argument. Raises UserError."""
    found = {}
    for one in given:
        key, sign, value = one.partition("=")
        if not sign or not key:
            raise UserError(f"{quoted(one)}: expected key=value, such as max.vcore=64")
        found[key] = value
    return found


def change(url: str, verb: str, request: Mapping[str, Any], as_json: bool, what: str = "") -> None:
    """Asks for a change of the configuration. Raises UserError when the change is not made."""
    answer = answered(url, lambda bus: configuration.change(bus, operator(), verb, request))
    if as_json:
        print(json.dumps(answer))
    if "version" not in answer:
        _refuse(answer["problems"], what, as_json)
    elif not as_json:
        _show(answer, verb)


def _refuse(problems: list[Document], what: str, as_json: bool) -> None:
    for one in problems if not as_json else ():
        where = f"{what}:{one['line']}" if one["line"] else what
        print(f"{where}: {one['path'] + ': ' if one['path'] else ''}{one['message']}")
    count = len(problems)
    raise UserError(f"{what}: {count} problem{'s' if count != 1 else ''}; nothing has changed")


def _show(answer: Document, verb: str) -> None:
    version = answer["version"]
    for line in answer.get("changes", ()):
        print(line)
    if verb == "confirm":
        console.print(f"version {version['number']} is confirmed and stays in force")
    elif not answer["changed"]:
        console.print(f"nothing has changed: version {version['number']} has this text")
    else:
        until = time_of(version.get("until_ms", 0))
        staged = f"; it is rolled back at {until}, unless `remuda config confirm` is run before"
        console.print(
            f"version {version['number']} is in force{staged if version.get('until_ms') else ''}", soft_wrap=True
        )
    for problem in answer.get("problems", ()):
        console.print(f"[yellow]{problem['message']}[/]", soft_wrap=True)
