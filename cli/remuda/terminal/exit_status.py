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

import pydantic
import typer
from nats.errors import Error as NatsError
from typer.exceptions import TyperException

from remuda_bus.bus import BusError
from remuda_bus.settings import SettingsProblems

from .. import limits
from ..errors import UserError
from .arguments import quoted
from .event_loop import Stopped

_LONG_WORD = re.compile(rf"\S{{{limits.LONGEST_WORD_CHARACTERS},}}")


def run_command(command: Callable[..., Any]) -> None:
    """Run a typer command and exit."""
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
    except (UserError, SettingsProblems, BusError, NatsError) as error:
        _end(getattr(error, "exit_code", 1), str(error) or type(error).__name__)
    except pydantic.ValidationError as error:
        _end(1, _setting(error))
    except OSError as error:
        if error.filename is None:
            raise
        _end(1, f"{error.filename}: {error.strerror}")
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _end(code: int, message: str) -> None:
    print(f"remuda: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def one_line(message: str) -> str:
    """Replace control characters, which names and server errors may contain, and shorten the message."""
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


def _setting(error: pydantic.ValidationError) -> str:
    """Message for a service setting from the environment."""
    return "; ".join(
        f"REMUDA_{'_'.join(map(str, problem['loc'])).upper()}={quoted(str(problem['input']))}: {problem['msg']}"
        for problem in error.errors()
    )
