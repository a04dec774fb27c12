"""Casts: what a terminal shows while commands run, as an SVG that moves by itself. For docs/pictures.py.

A terminal emulator reads what the commands write into a pseudo-terminal. The SVG has each distinct line once, and
frames that refer to lines; CSS shows one frame after the other. Readers who want no motion see the last frame.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

import pyte

FRAME_EVERY_S = 0.25
TYPED_IN_S = 0.8
READ_FOR_S = 2.5  # what a command has printed is shown for so long
LAST_FOR_S = 5.0
CHARACTER, LINE, SIZE, EDGE = 8.4, 18, 14, 12
PROMPT = "\x1b[1;32m$\x1b[0m "
COLOURS = {
    "default": "#d8dee9", "black": "#3b4252", "red": "#e0707a", "green": "#a3be8c", "brown": "#ebcb8b",
    "blue": "#81a1c1", "magenta": "#b48ead", "cyan": "#88c0d0", "white": "#e5e9f0",
    "brightblack": "#7b88a1", "brightred": "#e88f97",
    "brightgreen": "#b5d29d", "brightbrown": "#f2d9a0", "brightblue": "#9bb8d6", "brightmagenta": "#c9a9c4",
    "brightcyan": "#9fd2e0", "brightwhite": "#ffffff",
}  # fmt: skip
BACKGROUND = "#242933"
FONT = f"{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
STYLE = f"text{{font:{FONT};white-space:pre}}.b{{font-weight:bold}}"


@dataclass(frozen=True)
class Frame:
    at_s: float
    lines: tuple[str, ...]  # each as SVG


def record(commands: Sequence[str], columns: int, rows: int, environment: Mapping[str, str]) -> list[Frame]:
    """The frames of these commands, one after the other. Raises SystemExit for a command that fails."""
    screen = pyte.Screen(columns, rows)
    screen.set_mode(pyte.modes.LNM)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    now_s = 0.0

    def look(at_s: float) -> None:
        lines = tuple(_line(screen, row) for row in range(rows))
        if not frames or frames[-1].lines != lines:
            frames.append(Frame(at_s, lines))

    for command in commands:
        stream.feed(f"{PROMPT}{command}".encode())
        look(now_s)
        stream.feed(b"\r\n")
        now_s += TYPED_IN_S
        started = time.monotonic()
        for chunk in _output(command, columns, rows, environment):
            stream.feed(chunk)
            look(now_s + time.monotonic() - started)
        now_s += time.monotonic() - started
        look(now_s)
        now_s += READ_FOR_S
    return frames


def _output(command: str, columns: int, rows: int, environment: Mapping[str, str]) -> Iterator[bytes]:
    """What the command writes, in pieces of FRAME_EVERY_S."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execvpe("sh", ["sh", "-c", f"exec {command}"], {**environment, "TERM": "xterm-256color"})  # noqa: S606
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    pending, since = b"", time.monotonic()
    while True:
        ready, _, _ = select.select([terminal], [], [], FRAME_EVERY_S)
        try:
            read = os.read(terminal, 65536) if ready else None
        except OSError:  # the command has closed its end
            read = b""
        if read == b"":
            break
        pending += read or b""
        if pending and time.monotonic() - since >= FRAME_EVERY_S:
            yield pending
            pending, since = b"", time.monotonic()
    yield pending
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise SystemExit(f"{command}: exit code {code}")


def _line(screen: pyte.Screen, row: int) -> str:
    """Text and backgrounds of one line, at the height of the first line."""
    characters = [screen.buffer[row][column] for column in range(screen.columns)]
    parts = []
    column = 0
    for (colour, background, bold), run in groupby(characters, _looks):
        text = "".join(one.data for one in run)
        x, width = EDGE + column * CHARACTER, len(text) * CHARACTER
        column += len(text)
        if background:
            parts.append(f'<rect x="{x:.1f}" width="{width:.1f}" height="{LINE}" fill="{background}"/>')
        if text.strip():
            shown = text.rstrip()
            weight = ' class="b"' if bold else ""
            parts.append(
                f'<text x="{x:.1f}" y="{LINE - 4}" fill="{colour}"{weight} textLength="{len(shown) * CHARACTER:.1f}">'
                f"{escape(shown)}</text>"
            )
    return "".join(parts)


def _looks(one: pyte.screens.Char) -> tuple[str, str, bool]:
    front, back = _colour(one.fg, COLOURS["default"]), _colour(one.bg, "")
    if one.reverse:
        front, back = back or BACKGROUND, front
    return front, back, one.bold


def _colour(name: str, default: str) -> str:
    return default if name == "default" else COLOURS.get(name, f"#{name}")


def drawn(frames: Sequence[Frame], columns: int, rows: int) -> str:
    """The SVG."""
    ends_s = frames[-1].at_s + LAST_FOR_S
    numbers = {
        line: n for n, line in enumerate(dict.fromkeys(line for frame in frames for line in frame.lines if line))
    }
    lines = "".join(f'<g id="l{n}">{line}</g>' for line, n in numbers.items())
    rules, groups = [], []
    for number, frame in enumerate(frames):
        begin = 100 * frame.at_s / ends_s
        end = 100 * frames[number + 1].at_s / ends_s if number + 1 < len(frames) else 100.0
        rules.append(f"@keyframes k{number}{{0%,{end:.3f}%{{opacity:0}}{begin:.3f}%{{opacity:1}}}}")
        rules.append(f"#f{number}{{animation:k{number} {ends_s:.1f}s step-end infinite}}")
        uses = "".join(
            f'<use href="#l{numbers[line]}" y="{EDGE + row * LINE}"/>' for row, line in enumerate(frame.lines) if line
        )
        groups.append(f'<g id="f{number}" class="f">{uses}</g>')
    still = f"@media (prefers-reduced-motion:reduce){{.f{{animation:none!important}}#f{len(frames) - 1}{{opacity:1}}}}"
    width, height = 2 * EDGE + columns * CHARACTER, 2 * EDGE + rows * LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">'
        f"<style>{STYLE}.f{{opacity:0}}{''.join(rules)}{still}</style><defs>{lines}</defs>"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>{"".join(groups)}</svg>\n'
    )
