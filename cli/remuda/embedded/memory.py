"""The soft memory limit of nats-server, for Go's garbage collector, derived from the memory of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .. import limits

VARIABLE = "GOMEMLIMIT"  # Go's variable; a value that is set, also "off", stays
CGROUP = Path("/sys/fs/cgroup/memory.max")


def with_limit(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for nats-server."""
    if VARIABLE in environment:
        return dict(environment)
    return {**environment, VARIABLE: f"{limit_of(machine_bytes()) // 1024**2}MiB"}


def limit_of(memory: int) -> int:
    """Returns the limit in bytes for a machine with `memory` bytes."""
    return int(min(max(memory * limits.SERVER_MEMORY_SHARE, limits.SERVER_MEMORY_LEAST), limits.SERVER_MEMORY_MOST))


def machine_bytes() -> int:
    """Returns the memory of the machine, or of the container if that is less, in bytes."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(memory, int(CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return memory


def server_environment() -> dict[str, str]:
    return with_limit(os.environ)
