"""Every bound of the gRPC front end, with its reason."""

from __future__ import annotations

from typing import Final

from remuda_bus.retry import RetryPolicy

# The port that schedulers of this family listen on.
PORT: Final = 3333

# Requests

# A request that is larger is refused: four times what an RM with 1,000 asks in a request sends. It is split into
# messages of the bus.
REQUEST_BYTES: Final = 4 * 1024 * 1024
# Requests of one stream that are read and not stored yet. Beyond them the stream is not read, so gRPC's flow control
# stops the client.
UNSTORED_REQUESTS: Final = 1_000
UNSTORED_BYTES: Final = 2 * REQUEST_BYTES
# How long a request is sent again while a stream of the bus is full or the bus is away. Then the RPC ends.
STORE_FOR_S: Final = 30.0
# As the SDK: the core's decision, and a core that takes over.
REGISTER_WITHIN_S: Final = 20.0
# No rmproxy listens: it is being replaced.
RESPONDERS_RETRY: Final = RetryPolicy(0.1, give_up_after_s=5.0)

# Callbacks

# Callbacks that one RM has not confirmed, and as many events. Beyond them, the front end takes no more from the bus: a
# client that does not read costs so much memory.
UNCONFIRMED_MESSAGES: Final = 5_000
UNCONFIRMED_BYTES: Final = 4 * 1024 * 1024
BATCH_MESSAGES: Final = 500
# A callback or an event counts as confirmed when its stream lives on for so long after it was sent. gRPC reports a dead
# client sooner (KEEPALIVE_*). Unconfirmed ones are sent again on the next stream.
CONFIRM_AFTER_S: Final = 3.0
CONFIRM_EVERY_S: Final = 0.5
# Another front end had the RM: it has heard by then that it has it no more.
HANDOVER_S: Final = 1.0

# A client that names a commit without a fact has processed all of it.
LAST_FACT: Final = 2**31

# Operators

# A follower of changes that takes no message for so long is ended. It resumes at its position.
READS_WITHIN_S: Final = 10.0

# Questions to an RM

# rmproxy asks 256 questions of each kind at a time.
OPEN_QUESTIONS: Final = 1_000
# rmproxy waits 5 s for an answer about predicates, and a person longer for a dump.
ANSWER_WITHIN_S: Final = 10.0

# Connections

# The scheduler counts an RM as lost after three of these (docs/wire-contract.md).
HEARTBEAT_INTERVAL_S: Final = 1.0
# A client that answers no ping for KEEPALIVE_TIMEOUT_S is gone, so its streams end within KEEPALIVE_INTERVAL_S more.
KEEPALIVE_INTERVAL_S: Final = 1.0
KEEPALIVE_TIMEOUT_S: Final = 1.5
# Clients may ping as often.
CLIENT_PING_INTERVAL_S: Final = 1.0
# RPCs at the same time: three streams for each of a thousand RMs, and some more. A connection has a bound of its own:
# one client does not take all.
RPCS_AT_ONCE: Final = 4_000
RPCS_OF_CONNECTION: Final = 100
# After a stop signal: streams end, and clients go to another front end.
STOP_WITHIN_S: Final = 1.0
# A reason in `grpc-message` and in the details: proxies cut headers at 8 kB and more.
REASON_CHARACTERS: Final = 4_000
# When a client may try again after an outage: a core or rmproxy takes over within a second.
RETRY_AFTER_S: Final = 1
