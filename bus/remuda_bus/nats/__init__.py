"""The verbs of `remuda_bus.bus` over a NATS server with JetStream (2.14 or newer).

`connect(url, name)` is the way in; what else is here is its own business.
"""

from remuda_bus.nats.access import Access
from remuda_bus.nats.bus import NatsBus, connect

__all__ = ["Access", "NatsBus", "connect"]
