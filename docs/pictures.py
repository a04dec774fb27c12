"""Take all pictures of the documents, from a running demonstration: the web page (.webp) and the terminal (.svg).

make pictures        needs chromium; 5 minutes
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.casts import drawn, record

IMAGES = Path(__file__).parent / "images"
PROGRAMS = Path(__file__).parents[1] / ".venv/bin"
QUALITY = 80
# Name -> scheme, width, height, place, milliseconds until it shows enough.
PICTURES = {
    "overview": ("light", 1100, 560, "overview", 12_000),
    "queues": ("light", 1100, 620, "queues/yard", 2_500),
    "queue": ("dark", 1100, 760, "queues/yard/default%20root.tenants.research", 20_000),
    "application": ("light", 1100, 900, "applications/yard/shards", 8_000),
    "nodes": ("dark", 1100, 620, "nodes/yard", 3_000),
    "editor": ("light", 1100, 760, "configuration/yard/edit", 3_000),
    "narrow": ("dark", 360, 700, "overview", 3_000),
}
# Of the page with an archive of what the demonstration does.
PAST_PICTURES = {
    "past": ("light", 1100, 580, "queues/yard", 1_000),
    "replays": ("light", 1100, 670, "configuration/yard", 1_000),
}
# So much of the past is there, in ms, when the first of them is taken.
PAST_MS = 5_000
# A text of the demonstration's queues.yaml, and another one in its place for the replay.
REPLAY = ("max: {vcore: 160, memory: 640Gi}", "max: {vcore: 320, memory: 1280Gi}")
WITHIN_MS = 600_000
QUEUES = Path(__file__).parents[1] / "cli/remuda/simulated_rm/demo/queues.yaml"
GPU_PICTURES = {
    "racks": ("light", 1100, 640, "nodes/gpu?show=racks", 8_000),
}
# Name -> columns, rows, commands. The first one has a system of its own, the others ask that of the pictures.
OWN_CASTS = {"demo": (96, 26, ["remuda demo --seconds 12"])}
CASTS = {"explain": (96, 20, ["remuda queues yard", "remuda explain yard giant"])}
GPU_CASTS = {"topology": (96, 20, ["remuda topology gpu b1/r1"])}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    for name, cast in OWN_CASTS.items():
        _cast(name, *cast, environment)
    with _demonstration((), environment) as (page_url, nats_url), _archive(nats_url, environment):
        _take(page_url, PAST_PICTURES)
    for options, pictures, casts in (((), PICTURES, CASTS), (("--gpu",), GPU_PICTURES, GPU_CASTS)):
        with _demonstration(options, environment) as (page_url, nats_url):
            _take(page_url, pictures)
            for name, cast in casts.items():
                _cast(name, *cast, environment | {"REMUDA_NATS_URL": nats_url})


@contextmanager
def _demonstration(options: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The addresses of the page and of the NATS server of one that runs."""
    command = ["remuda", "demo", "--web", "--plain", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as demo:
        try:
            page_url = _address(demo)
            services = subprocess.run(
                ["ps", "-o", "args=", "--ppid", str(demo.pid)], check=True, capture_output=True, text=True
            )
            found = re.search(r"--nats (\S+)", services.stdout)
            assert found is not None, services.stdout
            yield page_url, found[1]
        finally:
            demo.send_signal(signal.SIGINT)


@contextmanager
def _archive(nats_url: str, environment: Mapping[str, str]) -> Iterator[None]:
    """The services of an archive, beside a demonstration."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as services:
        for service in ("archive", "history"):
            settings = ["--set", f"archive.store={directory}", "--set", "archive.write=1s"]
            running = subprocess.Popen(["remuda", "run", service, "--nats", nats_url, *settings], env=environment)
            services.callback(running.wait)
            services.callback(running.terminate)
        yield


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


def _take(url: str, pictures: Mapping[str, tuple[str, int, int, str, int]]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (scheme, width, height, place, wait_ms) in pictures.items():
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
            page.goto(f"{url}#{place}")
            page.wait_for_timeout(wait_ms)
            if name in ACTIONS:
                ACTIONS[name](page)
            expect(page.get_by_text("asking …")).to_have_count(0, timeout=60_000)
            _save(page, name)
            page.close()
        browser.close()


def _look_back(page: Page) -> None:
    page.get_by_role("button", name="Look back").click(timeout=WITHIN_MS)
    ends = "() => { const one = document.querySelector('#moment'); return one.max - one.min; }"
    page.wait_for_function(f"() => ({ends})() > {PAST_MS}", timeout=WITHIN_MS)
    page.get_by_role("slider").press("Home")
    for _ in range(6):
        page.get_by_role("slider").press("PageUp")
    page.get_by_text("As it was at").wait_for()
    page.wait_for_timeout(5_000)


def _play(page: Page) -> None:
    """Play what the demonstration has done with another configuration, and show the report."""
    url, text = page.url.partition("#")[0], QUEUES.read_text().replace(*REPLAY)
    given = {"text": text, "since": "1d", "title": "services with up to 320 cores"}
    begun = page.request.post(f"{url}api/v1/rms/yard/replays", data=given).json()
    page.goto(f"{url}#configuration/yard/replays?chosen={begun['id']}")
    page.get_by_text("Decided again exactly").wait_for(timeout=WITHIN_MS)


# Steps on a page before its picture is taken.
ACTIONS = {"past": _look_back, "replays": _play}


def _save(page: Page, name: str) -> None:
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.save(IMAGES / f"page-{name}.webp", quality=QUALITY, method=6)


def _cast(name: str, columns: int, rows: int, commands: list[str], environment: Mapping[str, str]) -> None:
    frames = record(commands, columns, rows, environment)
    (IMAGES / f"cast-{name}.svg").write_text(drawn(frames, columns, rows))


if __name__ == "__main__":
    main()
