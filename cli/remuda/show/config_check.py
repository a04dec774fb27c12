"""`remuda config check FILE`: print all problems of a queues.yaml, or a summary with advice. Needs no running system.

The file may be a ConfigMap or values of Helm: the text at its key `queues.yaml` is checked, with lines of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from remuda_config import AdviceOnText, Invalid, Problem, advice_on, load_file, read_file
from remuda_proto.remuda.v1 import config_pb2

from .. import limits
from ..drafts import sources, yunikorn
from ..errors import UserError
from ..terminal.output import console


def check(file: Path, as_json: bool) -> None:
    """Print one line per problem. Raises UserError if there is one."""
    found = read_file(file)
    if isinstance(found, Problem):
        raise UserError(found.message)
    held = _held_text(file, found)
    content = held.text.encode() if held is not None else found
    try:
        configuration = load_file(content, file, limits.MAX_PAYLOAD_BYTES)
        advice = advice_on(content.decode())
    except Invalid as invalid:
        if held is None and (hint := _other_kind(found)):
            raise UserError(f"{file}: {hint}") from None
        problems = [_in_file(problem, held) for problem in invalid.problems]
        show_problems(file, Invalid(problems), as_json)
        count = len(problems)
        raise UserError(f"{file}: {count} problem{'s' if count != 1 else ''}; remuda would refuse this file") from None
    advice = AdviceOnText(*([_in_file(one, held) for one in found] for found in advice))
    _show_valid(file, configuration, advice, held, as_json)


def _held_text(file: Path, content: bytes) -> yunikorn.HeldText | None:
    if b"queues.yaml" not in content and b"partitions" not in content:
        return None
    try:
        return yunikorn.held_text(sources.documents(sources.File(str(file), content.decode())))
    except (sources.NotReadable, UnicodeDecodeError):
        return None  # the check of the whole file says what is wrong with it


def _in_file(problem: Problem, held: yunikorn.HeldText | None) -> Problem:
    if held is None or not problem.line:
        return problem
    return replace(problem, line=held.before + (problem.line if held.placed else 1))


def _other_kind(content: bytes) -> str:
    """A hint for a file that is no configuration but describes pools of Peloton; empty: the kind of file is not
    known."""
    try:
        found = [one.content for one in sources.documents(sources.File("", content.decode()))]
    except (sources.NotReadable, UnicodeDecodeError):
        return ""
    first = found[0] if found else None
    if not isinstance(first, Mapping) or "partitions" in first:
        return ""
    if "pools" in first:
        return "describes pools of Peloton: `remuda pool preview` checks it"
    resources = first.get("resources")
    if isinstance(resources, list) and all(isinstance(one, Mapping) and "kind" in one for one in resources):
        return "describes a resource pool of Peloton: `remuda pool set PATH --file FILE` creates or changes the pool"
    return ""


def show_problems(file: Path, invalid: Invalid, as_json: bool) -> None:
    if as_json:
        problems = [asdict(problem) for problem in invalid.problems]
        print(json.dumps({"file": str(file), "valid": False, "problems": problems}))
        return
    for problem in invalid.problems:
        _show_at(file, problem)


def _show_at(file: Path, problem: Problem, kind: str = "") -> None:
    where = f"{file}:{problem.line}" if problem.line else str(file)
    path = f"[cyan]{escape(problem.path)}[/]: " if problem.path else ""
    console.print(f"{escape(where)}: {kind}{path}{escape(problem.message)}", soft_wrap=True)


def _show_valid(
    file: Path,
    configuration: config_pb2.Configuration,
    advice: AdviceOnText,
    held: yunikorn.HeldText | None,
    as_json: bool,
) -> None:
    queues = {partition.name: _count(partition.root) for partition in configuration.partitions}
    if as_json:
        document: dict[str, Any] = {"file": str(file), "valid": True, "checksum": configuration.checksum}
        listed = {kind: [asdict(one) for one in found] for kind, found in advice._asdict().items()}
        print(json.dumps({**document, "queues": queues, **listed}))
        return
    for kind, found in (("[yellow]warning[/]: ", advice.warnings), ("", advice.versions)):
        for one in found:
            _show_at(file, one, kind)
    what = ", ".join(
        f"partition {name} with {count} queue{'s' if count != 1 else ''}" for name, count in queues.items()
    )
    at_key = f", at the key {held.key}" if held is not None else ""
    console.print(
        f"{file}{at_key}: valid: {what}. Checksum {configuration.checksum[:12]}", soft_wrap=True, markup=False
    )


def _count(queue: config_pb2.QueueConfig) -> int:
    return 1 + sum(map(_count, queue.queues))
