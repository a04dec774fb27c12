"""`remuda config import`: translate files of another scheduler into a queues.yaml, and report what it does not hold."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from remuda_config import Invalid, load_file

from .. import limits
from ..drafts.amounts import Amounts, parse_list
from ..drafts.notes import Kind, Note, Notes
from ..drafts.sources import File, NotReadable
from ..drafts.translate import SOURCES, Translated, translate
from ..errors import UserError
from ..terminal import arguments
from ..terminal.output import console, errors

_STDIN = "-"
_COLOURS = {Kind.NONE: "red", Kind.NEAR: "yellow", Kind.ELSEWHERE: "cyan"}


def import_configuration(
    files: Sequence[Path], source: str | None, output: Path | None, capacity: str | None,
    report_only: bool, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Translates a configuration. Raises UserError; then nothing is written."""
    if source is not None and source not in SOURCES:
        raise UserError(f"--from {arguments.quoted(source)}: expected one of {', '.join(SOURCES)}")
    if output is not None and (output.exists() or output.is_symlink()) and not force:
        raise UserError(f"--output {output}: there already; --force replaces it")
    try:
        translated = translate([_read(file) for file in files], source, _capacity(capacity))
        load_file(translated.text.encode(), output or Path("queues.yaml"), limits.MAX_PAYLOAD_BYTES)
    except (NotReadable, Invalid) as error:
        raise UserError(str(error)) from None
    if output is not None and not report_only:
        try:
            output.write_text(translated.text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"--output {output}: {getattr(error, 'strerror', None) or error}") from None
    _show(translated, output, report_only, as_json)


def _read(file: Path) -> File:
    if str(file) == _STDIN:
        return File("stdin", _decode("stdin", sys.stdin.buffer.read(limits.LARGEST_IMPORT_BYTES + 1)))
    arguments.readable("", file)
    try:
        with file.open("rb") as opened:
            return File(str(file), _decode(str(file), opened.read(limits.LARGEST_IMPORT_BYTES + 1)))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def _decode(name: str, content: bytes) -> str:
    if len(content) > limits.LARGEST_IMPORT_BYTES:
        raise UserError(f"{name}: expected at most {limits.LARGEST_IMPORT_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{name}:{line}: byte 0x{content[error.start]:02x} is not UTF-8") from None


def _capacity(text: str | None) -> Amounts:
    try:
        return parse_list(text) if text else {}
    except ValueError as error:
        raise UserError(f"--capacity {error}") from None


def _show(translated: Translated, output: Path | None, report_only: bool, as_json: bool) -> None:
    """The text on stdout and the report on stderr; with `--output` or `--report` the report on stdout."""
    if as_json:
        document = {"source": translated.source, "notes": [note.document() for note in translated.notes]}
        print(json.dumps(document if report_only or output else {**document, "text": translated.text}))
        return
    screen = console if output is not None or report_only else errors
    if screen is errors:
        sys.stdout.write(translated.text)
        sys.stdout.flush()
    for note in translated.notes:
        screen.print(_coloured(note), soft_wrap=True)
    written = f"wrote {output}, which remuda accepts; " if output is not None and not report_only else ""
    screen.print(f"{written}{_summary(translated.notes)}", soft_wrap=True, markup=False)
    if written:
        next_commands = f"next: remuda up --config {output}, or remuda config preview RM {output}"
        screen.print(next_commands, soft_wrap=True, markup=False)


def _coloured(note: Note) -> Text:
    line = Text(str(note))
    line.highlight_words([f": {note.kind}:"], _COLOURS[note.kind])
    return line


def _summary(notes: Notes) -> str:
    if not len(notes):
        return "everything has a counterpart"
    counts = Counter(note.kind for note in notes)
    parts = [f"{counts[kind]} {kind}" for kind in Kind if counts[kind]]
    return f"notes: {', '.join(parts)} (docs/migrate.md)"
