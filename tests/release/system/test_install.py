"""What `make dist` makes, installed in empty environments outside of the repository, with nothing of it at hand; and
`make demo` in a fresh checkout.

Dependencies come from the package index that pip is configured with, in the versions of the locks.
"""

from __future__ import annotations

import email
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.test_metadata import NAME, PACKAGES, ROOT, VERSION, pinned

pytestmark = pytest.mark.timeout(600)
README_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LARGEST_MB = 300  # of the environment in which the demonstration runs


class Installed:
    """A virtual environment, and commands that run in it from an empty directory."""

    def __init__(self, folder: Path, dist: Path) -> None:
        self.folder, self.dist = folder, dist
        self.bin = folder / "venv" / "bin"
        self.constraints = folder / "constraints.txt"
        lock = (ROOT / "requirements-dev.lock").read_text()
        self.constraints.write_text(
            "".join(f"{line}\n" for line in re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE))
        )
        self.cwd = folder / "elsewhere"
        self.cwd.mkdir()

    def environment(self) -> dict[str, str]:
        return {**clean_environment(), "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder)}

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
        """By name, as from an index: the folder has it."""
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        return self.run(*pip, "-c", str(self.constraints), "--find-links", str(self.dist), *what)


def clean_environment() -> dict[str, str]:
    kept = ("REMUDA", "PYTHON", "VIRTUAL", "MAKE", "MFLAGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(kept)}


def make_dist(into: Path) -> dict[str, Path]:
    """The files that `make dist` makes, by their last suffix."""
    subprocess.run(["make", "-s", "dist", f"DIST={into}"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return {file.suffix: file for file in into.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_dist(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, dist: dict[str, Path]) -> Installed:
    folder = tmp_path_factory.mktemp("install")
    assert ROOT not in folder.parents
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    here = Installed(folder, dist[".whl"].parent)
    here.install(NAME)
    return here


def test_the_wheel_has_all_packages_with_types_and_licences(dist: dict[str, Path]) -> None:
    assert {file.name.removeprefix(f"remuda_scheduler-{VERSION}") for file in dist.values()} == {
        "-py3-none-any.whl", ".tar.gz", ".cdx.json",
    }  # fmt: skip
    with zipfile.ZipFile(dist[".whl"]) as archive:
        names = archive.namelist()
        folder = f"remuda_scheduler-{VERSION}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        for file in ("LICENSE", "NOTICE"):
            assert archive.read(f"{folder}/licenses/{file}") == (ROOT / file).read_bytes()
    assert metadata["Name"] == NAME and metadata["Version"] == VERSION
    assert {name.partition("/")[0] for name in names} == {package.name for package in PACKAGES} | {folder}
    assert {f"{package.name}/py.typed" for package in PACKAGES} <= set(names)
    assert "remuda_web/page/vendor/LICENSES" in names
    assert not [name for name in names if "/tests/" in name]


def test_the_same_sources_make_the_same_bytes(dist: dict[str, Path], tmp_path: Path) -> None:
    again = make_dist(tmp_path / "again")
    assert [again[suffix].name for suffix in dist if again[suffix].read_bytes() != dist[suffix].read_bytes()] == []
    subprocess.run(["tar", "-xzf", dist[".gz"], "-C", tmp_path, "--strip-components=1"], check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "from-sdist")]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    [wheel] = (tmp_path / "from-sdist").iterdir()
    assert wheel.read_bytes() == dist[".whl"].read_bytes()


def test_the_list_of_components_is_that_of_the_lock(dist: dict[str, Path]) -> None:
    listed = json.loads(dist[".json"].read_text())
    assert listed["bomFormat"] == "CycloneDX"
    about = listed["metadata"]["component"]
    assert (about["name"], about["version"]) == (NAME, VERSION)
    found: dict[str, set[str]] = {}
    for component in listed["components"]:
        assert component["purl"].startswith("pkg:pypi/")
        found.setdefault(component["name"], set()).add(component["version"])
    assert found == pinned("requirements-extras.lock")


def test_nothing_comes_from_the_repository(installed: Installed) -> None:
    packages = [package.name for package in PACKAGES]
    paths = ", ".join(f"{package}.__path__" for package in packages)
    text = installed.run("python", "-c", f"import {', '.join(packages)}; print({paths})")
    assert str(ROOT) not in text
    assert text.count(str(installed.folder)) == len(packages)


def test_the_command_says_its_version(installed: Installed) -> None:
    assert installed.run("remuda", "--version") == f"remuda {VERSION}\n"


def test_the_demo_works_and_says_what_to_do_next(installed: Installed) -> None:
    shown = installed.run("remuda", "demo", "--plain", "--seconds", "8")
    assert "Summary" in shown
    assert shown.partition("\nNext\n")[2].startswith("  remuda demo --web ")


@pytest.fixture
def url(installed: Installed, tmp_path: Path) -> Iterator[str]:
    """Of a system that `remuda up` has started."""
    ports = ("--port", "0", "--grpc-port", "0", "--web-port", "0")
    process = installed.popen("remuda", "up", "--plain", *ports, "--data", str(tmp_path / "data"))
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


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("kubernetes", "run kubernetes"),
        ("peloton", "up --peloton-port 0"),
        ("telemetry", "run core --set traces.endpoint=http://127.0.0.1:4318"),
        ("plot", "load --nodes 2 --asks 10 --plain --plot plot.png"),
    ],
)
def test_what_needs_an_extra_says_which_and_finds_it(installed: Installed, extra: str, command: str) -> None:
    assert f"pip install 'remuda-scheduler[{extra}]'\n" in installed.run("remuda", *command.split(), code=1)
    installed.install(f"{NAME}[{extra}]")
    installed.run("python", "-c", f"from remuda.extras import need; need('{extra}', 'it')")
    if extra == "plot":
        installed.run("remuda", *command.split())
        assert (installed.cwd / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_extra_for_developers_can_be_installed(installed: Installed) -> None:
    assert "Would install" in installed.install("--dry-run", f"{NAME}[dev]")


def test_a_fresh_checkout_demonstrates_without_tools_for_tests(tmp_path: Path) -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    copy = ["xargs", "-0", "cp", "--parents", "--no-dereference", "-t", str(tmp_path)]
    subprocess.run(copy, cwd=ROOT, check=True, input=files)
    demo = ["make", "-s", "demo", f"PYTHON={sys.executable}", "ARGS=--plain --seconds 6"]
    shown = subprocess.run(
        demo, cwd=tmp_path, env=clean_environment(), check=True, capture_output=True, text=True
    ).stdout
    assert shown.startswith("setting up .venv")
    assert re.search(r"\d+ of \d+: ", shown)  # progress
    assert "  .venv/bin/remuda demo --web " in shown.partition("\nNext\n")[2]
    packages = {folder.name for folder in (tmp_path / ".venv" / "lib").glob("python3*/site-packages/*")}
    assert not packages & {"pytest", "mypy", "playwright", "numpy", "matplotlib"}
    size = subprocess.run(["du", "-sm", tmp_path / ".venv"], check=True, capture_output=True, text=True).stdout
    assert int(size.split()[0]) < LARGEST_MB
