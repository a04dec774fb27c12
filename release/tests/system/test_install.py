"""The wheels of `make dist`, installed in an empty environment outside of the repository, with nothing of it at hand.

Dependencies come from the package index that pip is configured with, in the versions of requirements.lock.
"""

from __future__ import annotations

import email
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.tests.test_metadata import NAMES, ROOT, VERSION

pytestmark = pytest.mark.timeout(600)
README_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Installed:
    """A virtual environment, and commands that run in it from an empty directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.wheels = sorted((folder / "dist").glob("remuda*.whl"))
        self.constraints = folder / "constraints.txt"
        lock = (ROOT / "requirements.lock").read_text()
        self.constraints.write_text(
            "".join(f"{line}\n" for line in re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE))
        )
        self.cwd = folder / "elsewhere"
        self.cwd.mkdir()

    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("REMUDA", "PYTHON", "VIRTUAL"))
        }
        return {**kept, "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder)}

    def popen(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self.cwd, env=self.environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *command: str, code: int = 0) -> str:
        process = self.popen(*command)
        try:
            output, _ = process.communicate(timeout=400)
        except BaseException:
            process.kill()
            raise
        assert process.returncode == code, f"{' '.join(command)}: {process.returncode}\n{output}"
        return output

    def install(self, *what: str) -> str:
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        return self.run(*pip, "-c", str(self.constraints), *what)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("install")
    assert ROOT not in folder.parents
    subprocess.run(["make", "-s", "dist", f"DIST={folder / 'dist'}"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    here = Installed(folder)
    here.install(*map(str, here.wheels))
    return here


def test_a_wheel_of_each_room_with_types_and_licence(installed: Installed) -> None:
    assert len(installed.wheels) == len(NAMES)
    for wheel in installed.wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            metadata = email.message_from_bytes(archive.read(next(one for one in names if one.endswith("/METADATA"))))
        package = wheel.name.partition("-")[0]
        assert f"{package}/py.typed" in names
        assert {one.rpartition("/")[2] for one in names if "/licenses/" in one} == {"LICENSE", "NOTICE"}
        assert metadata["Version"] == VERSION
        assert not [one for one in names if "/tests/" in one]


def test_nothing_comes_from_the_repository(installed: Installed) -> None:
    packages = [name.replace("-", "_") for name in NAMES]
    text = installed.run(
        "python", "-c", f"import {', '.join(packages)}; print({packages[0]}.__path__, {packages[-1]}.__path__)"
    )
    assert str(ROOT) not in text
    assert str(installed.folder) in text


def test_the_command_says_its_version(installed: Installed) -> None:
    assert installed.run("remuda", "--version") == f"remuda {VERSION}\n"


def test_the_demo_works(installed: Installed) -> None:
    assert "Summary" in installed.run("remuda", "demo", "--plain", "--seconds", "8")


@pytest.fixture
def url(installed: Installed, tmp_path: Path) -> Iterator[str]:
    """Of a system that `remuda up` has started."""
    process = installed.popen("remuda", "up", "--plain", "--port", "0", "--data", str(tmp_path / "data"))
    try:
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line)
            if " ready: " in line:
                break
        found = re.search(r"nats://[\d.:]+", "".join(seen))
        assert found is not None, "".join(seen)
        yield found[0]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_a_system_comes_up_and_the_sdk_talks_to_it(installed: Installed, url: str) -> None:
    example = README_EXAMPLE.search((ROOT / "README.md").read_text())
    assert example is not None
    text = installed.run("python", "-c", example[1].replace("nats://127.0.0.1:4222", url))
    assert sorted(line.split()[0] for line in text.splitlines()) == [f"task-{n}" for n in range(5)]
    assert "my-cluster" in installed.run("remuda", "status", "--nats", url)


def test_a_scheduler_runs_in_the_process_of_a_program(installed: Installed) -> None:
    _, program, *_ = README_EXAMPLE.findall((ROOT / "sdk" / "README.md").read_text())
    assert installed.run("python", "-c", program) == "start task-1 on n1\n"


def test_plots_need_their_extra(installed: Installed) -> None:
    load = ("remuda", "load", "--nodes", "2", "--asks", "10", "--plain", "--plot", "plot.png")
    assert "remuda[plot]" in installed.run(*load, code=1)
    installed.install(f"{installed.wheels[0]}[plot]")
    installed.run(*load)
    assert (installed.cwd / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_extra_for_developers_can_be_installed(installed: Installed) -> None:
    assert "Would install" in installed.install("--dry-run", f"{installed.wheels[0]}[dev,telemetry]")
