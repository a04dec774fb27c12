"""`make pictures` takes all pictures of the documents, and documents show all of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"


def test_pictures_are_those_of_the_script_and_of_the_documents() -> None:
    files = {file.name for file in IMAGES.iterdir()}
    script = (ROOT / "docs/pictures.py").read_text()
    named = {name: f"page-{name}.webp" for name in re.findall(r'^    "(\w+)": \("', script, re.MULTILINE)}
    casts = {f"cast-{name}.svg" for name in re.findall(r'CASTS = \{"(\w+)"', script)}
    assert files == {*named.values(), *casts}
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for file in documents for name in re.findall(r"\(\S*images/([\w.-]+)\)", file.read_text())}
    assert shown == files


def test_casts_ask_for_nothing_from_elsewhere() -> None:
    for file in IMAGES.glob("*.svg"):
        text = file.read_text()
        assert "prefers-reduced-motion" in text
        assert not re.findall(r'(?:href|src)="(?!#)', text) and "<script" not in text
        assert re.search(r"<style>text\{font:[^{}]*monospace;white-space:pre\}", text), "columns stand below each other"
        assert len(text) < 300_000
