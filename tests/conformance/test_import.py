"""What the reference accepts can be imported, where its corpus of configurations is at hand."""

from __future__ import annotations

import json

import pytest

import remuda_config
from remuda.drafts.sources import File, NotReadable
from remuda.drafts.translate import translate
from tests.conformance import configurations
from tests.conformance.recording import FOLDER

# Accepted, since the reference takes a text without a partition for its built-in configuration: nothing to import.
WITHOUT_PARTITIONS = {
    "doc-null.yaml", "doc-only-comment.yaml", "doc-partitions-null.yaml", "doc-whitespace.yaml",
    "null-item-partition.yaml",
}  # fmt: skip

# Accepted with advice: a key that means nothing here, and a policy that nobody knows, which is fifo.
ADVISED = {"statedumpfilepath", "application.sort.policy: random"}

pytestmark = pytest.mark.skipif(
    not configurations.is_corpus(FOLDER), reason=f"no configurations in {FOLDER} (set REMUDA_CONFORMANCE)"
)


def test_what_the_reference_accepts_can_be_imported() -> None:
    """A text that remuda accepts stays what it is; of any other, each difference has a note."""
    verdicts = json.loads((FOLDER / "config" / "verdict.json").read_text())
    refused = set()
    for name, verdict in verdicts.items():
        text = (FOLDER / "config" / "files" / name).read_bytes().decode(errors="replace")
        try:
            made = translate([File(name, text)], "yunikorn")
        except NotReadable:
            refused |= {name} if verdict["accept"] else set()
            continue
        remuda_config.load(made.text)
        if is_valid(text):
            assert {note.what for note in made.notes} <= ADVISED, name
            changed = remuda_config.difference(remuda_config.load(text), remuda_config.load(made.text))
            assert all(one.endswith("application.sort.policy random → fifo") for one in changed), name
        else:
            assert len(made.notes), name
    assert refused == WITHOUT_PARTITIONS


def is_valid(text: str) -> bool:
    try:
        remuda_config.load(text)
    except remuda_config.Invalid:
        return False
    return True
