"""The bus over NATS servers with JetStream (2.14 or newer).

`connect(url, name)` returns a `NatsBus`. The other modules are internal.
"""

from remuda_bus.nats.client_library import Msg, NatsError  # isort: skip # before anything else imports the library
from remuda_bus.nats.access import Access
from remuda_bus.nats.bus import NatsBus, connect

__all__ = ["Access", "Msg", "NatsBus", "NatsError", "connect"]
