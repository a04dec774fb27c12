"""A core is started again with its memory in huge pages, once."""

import os
import subprocess
import sys

from remuda_core.shell.huge_pages import ENVIRONMENT

PROGRAM = """
import os, sys
from remuda_core.shell import huge_pages
huge_pages.restart()
print(os.environ.get("PYTHONMALLOC"), os.environ.get("GLIBC_TUNABLES"), *sys.argv[1:])
"""


def run(**environment: str) -> str:
    others = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    command = [sys.executable, "-c", PROGRAM, "core", "--nats=url"]
    return subprocess.run(
        command, env={**others, **environment}, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_it_starts_again_with_the_same_arguments() -> None:
    assert run() == "malloc glibc.malloc.hugetlb=1 core --nats=url\n"


def test_who_says_how_memory_is_to_be_had_is_obeyed() -> None:
    assert run(PYTHONMALLOC="pymalloc") == "pymalloc None core --nats=url\n"
