"""The bus as services see it: its verbs, its messages and its errors.

`remuda_bus.nats` implements the protocol `Bus` over JetStream, `remuda_bus.memory` in memory, for tests.
"""

from remuda_bus.bus.errors import (
    BusError,
    ConsumerGone,
    Full,
    HistoryChanged,
    LogTrimmed,
    NoResponders,
    Refused,
    Unanswered,
    Unreadable,
    UnsuitableServer,
)
from remuda_bus.bus.messages import (
    ConsumerState,
    Entry,
    Handler,
    Headers,
    Listener,
    Message,
    Outgoing,
    Reply,
    StreamState,
)
from remuda_bus.bus.protocol import Bus, Consumer, Reader, Serving

__all__ = [
    "Bus",
    "BusError",
    "Consumer",
    "ConsumerGone",
    "ConsumerState",
    "Entry",
    "Full",
    "Handler",
    "Headers",
    "HistoryChanged",
    "Listener",
    "LogTrimmed",
    "Message",
    "NoResponders",
    "Outgoing",
    "Reader",
    "Refused",
    "Reply",
    "Serving",
    "StreamState",
    "Unanswered",
    "Unreadable",
    "UnsuitableServer",
]
