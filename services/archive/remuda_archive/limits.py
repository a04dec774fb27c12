"""Every bound of the archive, with its reason."""

from __future__ import annotations

from typing import Final

from remuda_bus.retry import RetryPolicy

# The core and rmproxy run first. The archive catches up when they are idle.
NICENESS: Final = 19
# Messages of one segment that are in memory, for each RM that is being copied.
SEGMENT_BYTES: Final = 8 * 1024**2
# The merged segment of an hour is made in memory. A larger hour keeps several segments.
HOUR_BYTES: Final = 64 * 1024**2
# Messages of one read.
MESSAGES_AT_ONCE: Final = 1_000
# The inbox is durable before the commit that has read it. A message that has not come within this time was trimmed.
INBOX_WITHIN_S: Final = 5.0
# An outage of the bus, a store that refuses, a log that was replaced: tried again without end.
COPY_RETRY: Final = RetryPolicy(5.0)
# One request to the store. Uploads of a segment take longer over a slow line.
STORE_TIMEOUT_S: Final = 60
# The bytes of a header: read alone, in place of the whole object, to find a time.
HEADER_BYTES: Final = 4_096
# How often what is too old is looked for.
TIDY_EVERY_S: Final = 600.0
HOUR_MS: Final = 3_600_000
