"""docs/differences.md, written from the kinds of differences: `python -m tests.conformance.differences`."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from .configurations import LAXER, MEANS_ANOTHER, STRICTER
from .kinds import KINDS

FILE = Path(__file__).parents[2] / "docs" / "differences.md"

HEAD = """\
# Where remuda differs from Apache YuniKorn 1.4, on purpose

Written by `python -m tests.conformance.differences` from the table that `make conformance` recognises them by: do not
edit.
Played with `compatibility: yunikorn-1.4` ([semantics.md](semantics.md), section 18).
"""
CONFIGURATIONS = """
# Configurations

Texts that 1.4 accepts and remuda refuses, because they mean nothing, or not what they say:

{stricter}

Texts that 1.4 refuses and remuda accepts:

{laxer}

Settings that mean something else:

{another}
"""


def text() -> str:
    parts = [HEAD]
    for kind in KINDS:
        file, _, title = kind.golden.partition(": ")
        shown = f"Shown by the golden scenario “{title}” ({file})."
        parts.append(f"\n## {kind.name}\n\n{paragraph(kind.why)}\n\n{paragraph(shown)}\n")
    listed = {name: "\n".join(f"- {each}" for each in table) for name, table in
              (("stricter", STRICTER), ("laxer", LAXER), ("another", MEANS_ANOTHER))}  # fmt: skip
    return "".join(parts) + CONFIGURATIONS.format(**listed)


def paragraph(words: str) -> str:
    return fill(words, 110, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    FILE.write_text(text())
