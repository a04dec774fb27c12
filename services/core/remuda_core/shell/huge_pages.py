"""The core's memory in pages of 2 MB.

Every allocation is of another ask, application, queue and node, none of which is in a cache, and with pages of 4 kB the
processor then has to find out first where in memory each of them is: that takes a third of the time. Python's own
allocator asks the kernel for pieces too small to be huge pages; glibc's, told so, asks for such as are.
"""

from __future__ import annotations

import os
import sys
from typing import Final

ENVIRONMENT: Final = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def restart() -> None:
    """Start this process again so, unless its environment says how it wants its memory. Both are read at the start."""
    if ENVIRONMENT.keys().isdisjoint(os.environ):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ENVIRONMENT})  # noqa: S606 - itself
