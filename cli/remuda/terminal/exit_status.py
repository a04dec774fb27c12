"""Exit codes of commands, and their one line on stderr.

A user error or an outage prints one line and exits with 1. Wrong usage exits with 2, an action that is not decided yet
with 3, a signal with 128 + its number.
Only a bug prints a traceback.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.exceptions import TyperException

from .. import limits
from ..errors import Stopped, UserError
from .arguments import quoted

_LONG_WORD = re.compile(rf"\S{{{limits.LONGEST_WORD_CHARACTERS},}}")


def run_command(command: Callable[..., Any]) -> None:
    """Runs a typer command and exits."""
    try:
        code = command(prog_name="remuda", standalone_mode=False)
        sys.stdout.flush()
    except Stopped as stopped:
        _end(128 + stopped.sign, f"stopped by {stopped.sign.name}")
    except typer.Abort:
        _end(130, "stopped: no confirmation")
    except BrokenPipeError:  # `remuda queues rm | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except TyperException as error:
        _end(*_usage(error))
    except UserError as error:
        _end(error.exit_code, str(error))
    except Exception as error:
        from .outages import message  # it imports the libraries that raise them

        if (line := message(error)) is None:
            raise
        _end(1, line)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _end(code: int, message: str) -> None:
    print(f"remuda: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def one_line(message: str) -> str:
    """Replaces control characters, which names and server errors may contain, and shortens the message."""
    line = "".join(c if c.isprintable() else " " for c in message)
    line = _LONG_WORD.sub(lambda found: quoted(found[0]), line)
    most = limits.LONGEST_MESSAGE_CHARACTERS
    return line if len(line) <= most else f"{line[:most]}... ({len(line):,} characters)"


def _usage(error: Any) -> tuple[int, str]:
    """Exit code and message of a click error."""
    message: str = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message)
        sys.exit(2)
    path = getattr(getattr(error, "ctx", None), "command_path", None) or "remuda"
    most = limits.LONGEST_USAGE_CHARACTERS
    message = message if len(message) <= most else f"{message[:most]}... ({len(message):,} characters)"
    return int(error.exit_code), f"{message} (see `{path} --help`)"
