"""`remuda config check FILE`: print all problems of a queues.yaml, or a summary. Needs no running system."""

from __future__ import annotations

import json
from pathlib import Path

from rich.markup import escape

from remuda_config import Invalid, Problem, load_file, read_file
from remuda_proto.remuda.v1 import config_pb2

from .. import limits
from ..errors import UserError
from ..terminal.output import console


def check(file: Path, as_json: bool) -> None:
    """Print one line per problem. Raises UserError if there is one."""
    found = read_file(file)
    if isinstance(found, Problem):
        raise UserError(found.message)
    try:
        configuration = load_file(found, file, limits.MAX_PAYLOAD_BYTES)
    except Invalid as invalid:
        show_problems(file, invalid, as_json)
        count = len(invalid.problems)
        raise UserError(f"{file}: {count} problem{'s' if count != 1 else ''}; remuda would refuse this file") from None
    _show_valid(file, configuration, as_json)


def show_problems(file: Path, invalid: Invalid, as_json: bool) -> None:
    if as_json:
        problems = [{"path": p.path, "line": p.line, "message": p.message} for p in invalid.problems]
        print(json.dumps({"file": str(file), "valid": False, "problems": problems}))
        return
    for problem in invalid.problems:
        where = f"{file}:{problem.line}" if problem.line else str(file)
        path = f"[cyan]{escape(problem.path)}[/]: " if problem.path else ""
        console.print(f"{escape(where)}: {path}{escape(problem.message)}", soft_wrap=True)


def _show_valid(file: Path, configuration: config_pb2.Configuration, as_json: bool) -> None:
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
