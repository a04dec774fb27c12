"""The bus over NATS servers with JetStream (2.14 or newer).

`connect(url, name)` returns a `NatsBus`. The other modules are internal.
"""

from remuda_bus.nats import websockets  # noqa: F401  # before anything imports the client of NATS
from remuda_bus.nats.access import Access
from remuda_bus.nats.bus import NatsBus, connect

__all__ = ["Access", "NatsBus", "connect"]
