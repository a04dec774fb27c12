"""From a machine with Python only to the page of the demonstration, in a container, by two commands.

    python -m tests.e2e.bare_machine [--wheels DIR]

Builds the wheel, installs it in a container of Debian that has Python and nothing of remuda, starts `remuda demo --web`
there, and prints the seconds until the wheel is installed, until the page answers, and what the installation takes on
the disk. pip fetches the dependencies from the index that it is configured with, or from DIR without a network."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE = "remuda/base:bookworm"
LOCKED = ROOT / "deploy" / "offline" / "cache" / "locked"
WITHIN_S = 300
CERTIFICATES = ("/etc/ssl/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")

# Runs in the container, with its Python. The first two commands are those of the README.
PLAY = """
import json, re, subprocess, sys, time, urllib.request
options = sys.argv[1:]
[wheel] = __import__("glob").glob("/dist/*.whl")
began = time.monotonic()
subprocess.run(["python3", "-m", "venv", "/home/remuda"], check=True)
subprocess.run(["/home/remuda/bin/pip", "install", "--quiet", *options, wheel], check=True)
installed = time.monotonic()
demo = subprocess.Popen(["/home/remuda/bin/remuda", "demo", "--web"], text=True, stdout=subprocess.PIPE)
for line in demo.stdout:
    if found := re.search(r"http://[\\d.:]+/", line):
        break
else:
    sys.exit("the demonstration has ended without a page")
page = urllib.request.urlopen(found[0], timeout=10).read().decode()
cores = json.load(urllib.request.urlopen(found[0] + "api/v1/rms", timeout=10))
opened = time.monotonic()
demo.terminate()
demo.communicate(timeout=30)
size = subprocess.run(["du", "-sm", "/home/remuda"], check=True, capture_output=True, text=True).stdout
print(json.dumps({"install_s": installed - began, "page_s": opened - installed, "megabytes": int(size.split()[0]),
                  "page": page, "rms": cores, "code": demo.returncode}))
"""


@dataclass(frozen=True)
class Seen:
    install_s: float
    page_s: float
    megabytes: int
    page: str
    rms: object
    code: int

    @property
    def total_s(self) -> float:
        return self.install_s + self.page_s


def play(wheels: Path | None) -> Seen:
    """CalledProcessError, with what the container has written to stderr, if a command fails there."""
    with tempfile.TemporaryDirectory() as folder:
        dist = Path(folder)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        run = ["docker", "run", "--rm", "--init", "--volume", f"{dist}:/dist:ro"]
        if wheels is None:
            run += ["--network", "host", *_as_pip_is_configured()]
            options = []
        else:
            run += ["--network", "none", "--volume", f"{wheels.resolve()}:/wheels:ro"]
            options = ["--no-index", "--find-links", "/wheels"]
        done = subprocess.run(
            [*run, BASE, "python3", "-c", PLAY, *options], check=True, stdout=subprocess.PIPE, timeout=WITHIN_S
        )
    return Seen(**json.loads(done.stdout.splitlines()[-1]))


def _as_pip_is_configured() -> list[str]:
    """The index and the certificates of this machine, not its folders of wheels."""
    options = [part for folder in CERTIFICATES if Path(folder).is_dir() for part in ("-v", f"{folder}:{folder}:ro")]
    for name in ("PIP_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT", "HTTPS_PROXY", "https_proxy"):
        if name in os.environ:
            options += ["--env", name]
    return options


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="take dependencies from here, without a network")
    seen = play(parser.parse_args().wheels)
    print(
        f"installed after {seen.install_s:.1f} s, page {seen.page_s:.1f} s later: {seen.total_s:.1f} s; "
        f"{seen.megabytes} MB"
    )


if __name__ == "__main__":
    main()
