"""On the path of a process, this makes its bounds of what an RM has in shared streams small, so that an attack on them
need not move gigabytes."""

from __future__ import annotations

import sys

import remuda_replication.snapshots
import remuda_rmproxy.limits

MB = 1_000_000
BOUNDS = {
    remuda_rmproxy.limits: {"WAITING_BYTES": 16 * MB, "BACKLOG_BYTES": 4 * MB},
    remuda_replication.snapshots: {"SNAPSHOT_INBOX_BYTES": 8 * MB},
}

for module, bounds in BOUNDS.items():
    for name, value in bounds.items():
        if not hasattr(module, name):
            sys.exit(f"{module.__name__} has no bound {name}")  # Python only reports other errors here, and goes on
        setattr(module, name, value)
