"""npm packages for tests, in a cache outside of the repository."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

JAVASCRIPT = Path(__file__).resolve().parents[2] / "examples" / "javascript"
INSTALL_WITHIN_S = 120


def installed_packages(pinned_in: Path = JAVASCRIPT) -> Path:
    """The directory `node_modules` of the `package.json` in this directory. Skips the test where the packages cannot be
    had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    pinned = b"".join((pinned_in / name).read_bytes() for name in ("package.json", "package-lock.json"))
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "remuda-examples"
    folder = base / hashlib.sha256(pinned).hexdigest()[:16]
    if not folder.exists():
        base.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=base))  # other tests may install at the same time
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pinned_in / name, scratch)
        command = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        try:
            run = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm ci has not ended within {INSTALL_WITHIN_S} s")
        if run.returncode:
            pytest.skip(f"npm ci cannot install the packages here: {run.stderr.strip()[-300:]}")
        with contextlib.suppress(OSError):  # another test was faster
            scratch.rename(folder)
    return folder / "node_modules"
