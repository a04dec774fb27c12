"""`--output` and `--watch`, for commands that know nothing of them and print a table or, with `--json`, JSON."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from .. import limits
from ..errors import Stopped, UserError
from .exit_status import one_line


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[Format, typer.Option("--output", "-o", help="wide: with further columns, however long the lines.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every two seconds, until Ctrl-C.")]
Command = Callable[..., Any]


def with_formats(command: Command) -> Command:
    """Adds the option `--output` to a command. It has to have the parameter `json`."""

    @functools.wraps(command)
    def run(*, output: Format = Format.TABLE, json: bool = False, **values: Any) -> None:
        if output is Format.WIDE:
            from .output import widen

            widen()
        if output is Format.YAML:
            _print_yaml(lambda: command(json=True, **values))
        else:
            command(json=json or output is Format.JSON, **values)

    return _with_option(run, "output", Format.TABLE, Output)


def with_watch(command: Command) -> Command:
    """Adds the option `--watch` to a command."""

    @functools.wraps(command)
    def run(*, watch: bool = False, **values: Any) -> None:
        if watch and values.get("forget"):
            raise typer.BadParameter("deletes once; it goes without --watch", param_hint="--forget")
        if watch:
            _repeat(lambda: command(**values))
        else:
            command(**values)

    return _with_option(run, "watch", False, Watch)


def _with_option(run: Command, name: str, default: object, annotation: object) -> Command:
    added = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    return with_parameters(run, [*parameters_of(run), added])


def parameters_of(command: Command) -> list[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())


def with_parameters(run: Command, parameters: list[inspect.Parameter]) -> Command:
    """Has typer make a command of a function as if it had these parameters."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _print_yaml(command: Callable[[], None]) -> None:
    """Print as YAML what the command prints as JSON: a document, or a line for each. An error of the command is raised
    after that."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            command()
    finally:
        print(_yaml(printed.getvalue()), end="")


def _yaml(text: str) -> str:
    import yaml  # services start by this command line, too, and most have no use for it

    try:
        documents = [json.loads(text)] if text.strip() else []
    except ValueError:
        documents = [json.loads(line) for line in text.splitlines()]
    return str(yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True))


def _repeat(command: Callable[[], None]) -> None:
    """Until Ctrl-C. An outage is shown, and may end."""
    from remuda_bus.bus import BusError

    from .output import console, errors

    with contextlib.suppress(Stopped, KeyboardInterrupt):
        while True:
            if console.is_terminal:
                console.clear()
            try:
                command()
            except (UserError, BusError) as error:
                errors.print(f"remuda: {one_line(str(error))}", markup=False, soft_wrap=True)
            sys.stdout.flush()
            time.sleep(limits.WATCH_EVERY_S)
