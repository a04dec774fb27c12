"""Every bound of the scheduler's interface in Python, with its reason."""

from __future__ import annotations

from typing import Final

from remuda_bus.retry import RetryPolicy

# The port that schedulers of this family listen on, for URLs without one.
GRPC_PORT: Final = 3333
# A front end accepts requests of 4 MiB: larger ones are sent in parts.
REQUEST_BYTES: Final = 4 * 1024 * 1024 - 64 * 1024
# Callbacks that wait for the RM. Beyond them nothing is read, and the front end holds them back.
WAITING_CALLBACKS: Final = 1_000
# A front end that answers no ping for this long is gone.
KEEPALIVE_INTERVAL_MS: Final = 5_000
KEEPALIVE_TIMEOUT_MS: Final = 5_000
# Between two attempts to open streams: a front end that starts again needs a second.
RECONNECT: Final = RetryPolicy(0.1)
