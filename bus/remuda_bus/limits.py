"""Every bound of the bus, with its reason. Those of streams and buckets stand with them, in `subjects.py`."""

from __future__ import annotations

# Requests that a process answers at the same time; whoever comes then is told to try again. A registration waits for
# the core, up to ten seconds; everything else takes milliseconds.
REQUESTS_AT_ONCE = 1_000
