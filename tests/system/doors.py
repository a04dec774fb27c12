"""Plays a page of docs/doors to the letter: saves its files, runs its commands in order, and compares what they show.

- A block after "Save ... as `NAME`" is the content of that file.
- A block of `sh` is run by bash. After the comment `<!-- terminal -->` it runs on in a terminal of its own.
- A block of `text` is what the block before it shows, perhaps after a while: each of its lines, with any amount of
  white space between the words, is somewhere in the output.

Ports are other ones than on the page, so that several pages can be played on one machine.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.patience import PATIENCE

ROOT: Final = Path(__file__).resolve().parents[2]
DOORS: Final = ROOT / "docs" / "doors"
WITHIN_S: Final = 60.0 * PATIENCE
LOOK_EVERY_S: Final = 0.3
READY: Final = ("rmproxy 1", "core 1", "config 1")
PART: Final = re.compile(
    r"as `(?P<file>[\w.-]+)`|(?P<terminal><!-- terminal -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


class Step(NamedTuple):
    """`file`: where the text is saved; empty for commands. `shown`: the lines that the commands show."""

    text: str
    file: str = ""
    in_terminal: bool = False
    shown: tuple[str, ...] = ()


def steps(page: str) -> list[Step]:
    """Raises ValueError for a block that is neither a file nor a command nor what a command shows."""
    found: list[Step] = []
    file = ""
    for part in PART.finditer(page):
        if part["file"]:
            file = part["file"]
        elif part["language"] == "sh":
            found.append(Step(part["text"], in_terminal=part["terminal"] is not None))
            file = ""
        elif part["language"] == "text" and found and not found[-1].file:
            found[-1] = found[-1]._replace(shown=tuple(part["text"].splitlines()))
        elif file:
            found.append(Step(part["text"], file))
            file = ""
        else:
            raise ValueError(f"the page does not say what to do with {part['text']!r}")
    return found


def play(page: Path, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Raises AssertionError where a command fails or shows something else."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "REMUDA_NATS_URL": f"nats://127.0.0.1:{port}",
        "COLUMNS": "200",
        **(environment or {}),
    }
    with ExitStack() as terminals:
        for number, step in enumerate(steps(page.read_text())):
            text = step.text.replace("remuda up", f"remuda up --port {port} --grpc-port 0 --web-port 0")
            text = text.replace("127.0.0.1:4222", f"127.0.0.1:{port}")
            if step.file:
                (folder / step.file).write_text(text)
            elif step.in_terminal:
                output = folder / f"terminal-{number}.txt"
                terminals.enter_context(_terminal(text, folder, output, variables))
                if text.startswith("remuda up"):
                    _until(partial(_run, "remuda status", folder, variables), READY)
                _until(partial(_read, output), step.shown)
            else:
                _until(partial(_run, text, folder, variables), step.shown)


def _until(show: Callable[[], tuple[bool, str]], shown: Sequence[str]) -> None:
    """Repeats what succeeds and shows too little: people look again, too."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        succeeded, output = show()
        words = " ".join(output.split())
        missing = [line for line in shown if " ".join(line.split()) not in words]
        if succeeded and not missing:
            return
        assert time.monotonic() < deadline, f"expected {missing} in:\n{output}"
        time.sleep(LOOK_EVERY_S)


@contextmanager
def _terminal(text: str, folder: Path, output: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Commands that run on until they are interrupted."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", text], cwd=folder, env=variables, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield
        assert process.poll() is None, f"{text}ended:\n{output.read_text()}"
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=30 * PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read(output: Path) -> tuple[bool, str]:
    """What a terminal has shown so far."""
    return True, output.read_text()


def _run(text: str, folder: Path, variables: Mapping[str, str]) -> tuple[bool, str]:
    """Whether the commands have succeeded, and what they have shown."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=variables, check=False, timeout=WITHIN_S,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return done.returncode == 0, done.stdout
