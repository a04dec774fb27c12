"""Take the pictures of the web page for the documents, from a running demonstration.

.venv/bin/python docs/screenshots.py        needs chromium
"""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
QUALITY = 80
# Name -> scheme, width, height, place, milliseconds until it shows enough.
PICTURES = {
    "queues": ("light", 1100, 620, "queues/yard", 2_500),
    "queue": ("dark", 1100, 760, "queues/yard/default%20root.tenants.research", 20_000),
    "application": ("light", 1100, 900, "applications/yard/shards", 8_000),
    "nodes": ("dark", 1100, 620, "nodes/yard", 3_000),
    "editor": ("light", 1100, 760, "configuration/yard/edit", 3_000),
    "narrow": ("dark", 360, 700, "applications/yard/shards", 3_000),
}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "remuda", "demo", "--web", "--plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        try:
            url = _address(demo)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for name, (scheme, width, height, place, wait_ms) in PICTURES.items():
                    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
                    page.goto(f"{url}#{place}")
                    page.wait_for_timeout(wait_ms)
                    _save(page, name)
                    page.close()
                browser.close()
        finally:
            demo.send_signal(signal.SIGINT)


def _address(demo: subprocess.Popen[str]) -> str:
    """Of the page, once the demonstration has placed the work that the pictures show."""
    assert demo.stdout is not None
    url, lines = "", 0
    for line in demo.stdout:
        if found := re.search(r"web page (\S+);", line):
            url = found[1]
        lines += " placed (" in line
        if url and lines >= 3:
            return url
    raise SystemExit("the demonstration has ended")


def _save(page: Page, name: str) -> None:
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.save(IMAGES / f"page-{name}.webp", quality=QUALITY, method=6)


if __name__ == "__main__":
    main()
