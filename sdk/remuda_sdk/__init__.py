"""What a resource manager imports: the client, short ways to write messages, and what comes back.

The messages themselves are `remuda_proto.si.v1.si_pb2`.
"""

from remuda_bus.bus import BusError, Full, Unanswered
from remuda_sdk.build import application, ask, node, release_of, resource
from remuda_sdk.client import ResourceManager
from remuda_sdk.session import Callback, DeadLetter, RegistrationFailed, Superseded

__all__ = [
    "BusError",
    "Callback",
    "DeadLetter",
    "Full",
    "RegistrationFailed",
    "ResourceManager",
    "Superseded",
    "Unanswered",
    "application",
    "ask",
    "node",
    "release_of",
    "resource",
]
