"""Another version of remuda, from its wheels, in processes of its own: its commands read the same archive.

Wheels are unpacked into a directory that is deleted in the end. Python finds them there before what is installed; what
they need and the directory does not have is taken from this installation. Versions have only the command line and its
JSON in common.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

DISTRIBUTION = "remuda-scheduler"
_WHEEL = DISTRIBUTION.replace("-", "_")
NICENESS = 19
_RUN = "import os; os.nice(max(0, {} - os.nice(0))); from remuda.main import app; app()"
# The end of what a process that failed has written.
_SHOWN = 2_000


class NoVersion(ValueError):
    """There are no wheels of a version, or it does not have the command. The text is for people."""


@dataclass(frozen=True, slots=True)
class Version:
    """`name`: such as 1.4.0. `directory`: where it is unpacked; None: the version that runs."""

    name: str
    directory: Path | None = None

    async def json(self, *arguments: str) -> Any:
        """The JSON that a command of this version prints. The command runs at the lowest priority, and ends when the
        call is cancelled. Raises NoVersion."""
        path = [str(self.directory)] if self.directory is not None else []
        path += [one for one in (os.environ.get("PYTHONPATH"),) if one]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", _RUN.format(NICENESS), *arguments, env=environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            printed, errors = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        try:  # the exit code says also whether decisions differ
            return msgspec.json.decode(printed)
        except msgspec.DecodeError:
            said = (errors or printed).decode(errors="replace").strip()[-_SHOWN:]
            raise NoVersion(f"version {self.name} has ended with {process.returncode}: {said}") from None


def this_version() -> Version:
    return Version(version(DISTRIBUTION))


@contextmanager
def unpacked(path: Path) -> Iterator[Version]:
    """The version whose wheel is at `path`, or in the directory `path` with others that it needs. Raises NoVersion."""
    wheels = sorted(path.glob("*.whl")) if path.is_dir() else [path]
    names = [name for one in wheels if (name := _version_of(one.name))]
    if len(names) != 1:
        found = f"{len(names)} of them" if names else "none"
        raise NoVersion(f"{path}: expected one wheel {_WHEEL}-VERSION-….whl, or a directory with it; found {found}")
    with tempfile.TemporaryDirectory(prefix="remuda-version-") as directory:
        for one in wheels:
            _unpack(one, Path(directory))
        yield Version(names[0], Path(directory))


def _version_of(name: str) -> str:
    distribution, _, rest = name.partition("-")
    return rest.partition("-")[0] if distribution == _WHEEL and name.endswith(".whl") else ""


def _unpack(wheel: Path, directory: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)  # which keeps every name below the directory
    except (OSError, zipfile.BadZipFile) as error:
        raise NoVersion(f"{wheel}: {error}") from None
