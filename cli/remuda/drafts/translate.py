"""The whole way of a translation: files in, a checked text of queues.yaml and notes out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruamel.yaml.comments import CommentedMap

from remuda_config import load

from . import kueue, slurm, volcano, yunikorn
from .amounts import Amounts
from .notes import Notes
from .settle import NotSettled, Where, settle
from .sources import Document, File, NotReadable, documents
from .tree import text_of

SOURCES = (yunikorn.NAME, kueue.NAME, slurm.NAME, volcano.NAME)
_TITLES = {yunikorn.NAME: "Apache YuniKorn", kueue.NAME: "Kueue", slurm.NAME: "Slurm", volcano.NAME: "Volcano"}
_OF_YAML = (yunikorn, kueue, volcano)
_HEAD_COLUMNS = 118


class Translated(NamedTuple):
    """A draft. `source`: one of SOURCES. `text`: a valid queues.yaml."""

    source: str
    text: str
    notes: Notes


@dataclass(slots=True)
class _Read:
    file: File
    source: str
    documents: list[Document]


def translate(files: Sequence[File], source: str | None, capacity: Amounts | None = None) -> Translated:
    """Translates files of one scheduler. `source` None: recognised by content. `capacity`: what all nodes have
    together, for weights and shares. Raises NotReadable.
    """
    read = [_read(file, source) for file in files]
    found = {one.source for one in read}
    if len(found) > 1:
        kinds = ", ".join(f"{one.file.name} ({_TITLES[one.source]})" for one in read)
        raise NotReadable(f"files of several schedulers: {kinds}: import those of one at a time")
    (kind,) = found
    notes = Notes()
    try:
        draft, where = _draft(kind, read, notes, capacity or {})
        settle(draft, notes, where)
        return Translated(kind, _checked(draft, kind, notes), notes)
    except NotSettled as error:
        raise NotReadable(f"{files[0].name}: nothing that remuda accepts can be made of it: {error}") from None
    except RecursionError:
        raise NotReadable(f"{files[0].name}: nested too deeply") from None


def _draft(kind: str, read: list[_Read], notes: Notes, capacity: Amounts) -> tuple[CommentedMap, Where | None]:
    """The draft, and where its paths are in the source; None: places are names of queues."""
    found = [document for one in read for document in one.documents]
    if kind == yunikorn.NAME:
        draft, document = yunikorn.translate(found, notes)
        return draft, document.at_path
    if kind == kueue.NAME:
        return kueue.translate(found, notes), None
    if kind == volcano.NAME:
        return volcano.translate(found, notes, capacity), None
    return slurm.translate([one.file for one in read], notes, capacity), None


def _checked(draft: CommentedMap, kind: str, notes: Notes) -> str:
    text = text_of(draft, _head(kind, notes))
    load(text)  # what was checked had no comment at its top
    return text


def _head(kind: str, notes: Notes) -> list[str]:
    """The comment at the top: where the text comes from, and what it does not hold."""
    lines = [f"Imported from {_TITLES[kind]} by `remuda config import`. Check changes with `remuda config check`."]
    if len(notes):
        lines += ["", "Not as it was (docs/migrate.md):"]
        for note in notes:
            lines += textwrap.wrap(f"- {note}", _HEAD_COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return [*lines, ""]


def _read(file: File, source: str | None) -> _Read:
    if source == slurm.NAME or (source is None and slurm.recognises(file)):
        return _Read(file, slurm.NAME, [])
    found = documents(file)
    for module in _OF_YAML:
        if source == module.NAME or (source is None and any(map(module.recognises, found))):
            if not found:
                break
            return _Read(file, module.NAME, found)
    raise NotReadable(f"{file.name}: nothing of {', '.join(_TITLES.values())} is recognised; see docs/migrate.md")
