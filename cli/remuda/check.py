"""`remuda config check FILE`: what is wrong with a queues.yaml, all of it, or what it amounts to. Needs no system."""

from __future__ import annotations

import json
from pathlib import Path

from rich.markup import escape

from remuda_config import Invalid, load
from remuda_proto.remuda.v1 import config_pb2

from .errors import UserError
from .terminal import console


def check(file: Path, as_json: bool) -> None:
    """Raises UserError when there is a problem: one line per problem was then printed before."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: not UTF-8 text") from None
    try:
        configuration = load(text)
    except Invalid as invalid:
        _report(file, invalid, as_json)
        count = len(invalid.problems)
        raise UserError(f"{file}: {count} problem{'s' if count != 1 else ''}; this file would be refused") from None
    _praise(file, configuration, as_json)


def _report(file: Path, invalid: Invalid, as_json: bool) -> None:
    if as_json:
        problems = [{"path": p.path, "line": p.line, "message": p.message} for p in invalid.problems]
        print(json.dumps({"file": str(file), "valid": False, "problems": problems}))
        return
    for problem in invalid.problems:
        where = f"{file}:{problem.line}" if problem.line else str(file)
        path = f"[cyan]{escape(problem.path)}[/]: " if problem.path else ""
        console.print(f"{escape(where)}: {path}{escape(problem.message)}", soft_wrap=True)


def _praise(file: Path, configuration: config_pb2.Configuration, as_json: bool) -> None:
    queues = {partition.name: _count(partition.root) for partition in configuration.partitions}
    if as_json:
        document = {"file": str(file), "valid": True, "checksum": configuration.checksum, "queues": queues}
        print(json.dumps(document))
        return
    what = ", ".join(
        f"partition {name} with {count} queue{'s' if count != 1 else ''}" for name, count in queues.items()
    )
    console.print(f"{file}: valid: {what}. Checksum {configuration.checksum[:12]}", soft_wrap=True, markup=False)


def _count(queue: config_pb2.QueueConfig) -> int:
    return 1 + sum(map(_count, queue.queues))
