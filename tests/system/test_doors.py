"""The pages for the first ten minutes, word for word, on a real system. That of Kubernetes needs a control plane:
integrations/kubernetes/tests/system/test_door.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.doors import DOORS, play, steps

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("page", ["cluster", "resource-manager"])
def test_the_page_works_to_the_letter(page: str, tmp_path: Path) -> None:
    play(DOORS / f"{page}.md", tmp_path)


def test_every_page_goes_from_the_queues_to_the_change() -> None:
    pages = sorted(DOORS.glob("*.md"))
    assert [page.stem for page in pages] == ["cluster", "kubernetes", "resource-manager"]
    for page in pages:
        text = "".join(f"{step.file}\n{step.text}" for step in steps(page.read_text()))
        for part in ("queues.yaml", "remuda up", "remuda explain", "remuda config preview", "remuda config apply"):
            assert part in text, f"{page.name}: no {part}"
