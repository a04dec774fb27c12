"""Writes generated sections into documents, or checks that they are up to date.

A section stands between a marker line, such as `<!-- written by docs/bounds.py -->`, and the next `<!-- end -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

END = "<!-- end -->\n"


def main(document: Path, sections: Mapping[str, str]) -> None:
    """Write the sections of the document, by marker. With the only argument `--check`, change nothing, and exit with an
    error where a section differs."""
    text = document.read_text()
    written = replaced(text, sections)
    if sys.argv[1:] != ["--check"]:
        document.write_text(written)
    elif written != text:
        sys.exit(f"{document}: a section differs from the code that it is made from; `make docs` writes it")


def replaced(text: str, sections: Mapping[str, str]) -> str:
    """The text with these sections. Raises ValueError when it lacks a marker."""
    for marker, section in sections.items():
        before, begin, rest = text.partition(f"{marker}\n")
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"there is no section {marker}")
        text = f"{before}{begin}{section}{end}{after}"
    return text
