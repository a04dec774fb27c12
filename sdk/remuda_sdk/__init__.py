"""What a resource manager imports: the client, short ways to write messages, and what comes back.

The messages themselves are `remuda_proto.si.v1.si_pb2`.
"""

from remuda_bus.bus import BusError, ChangedPast, Full, Unanswered
from remuda_sdk.build import application, ask, node, release_of, resource
from remuda_sdk.client import ResourceManager
from remuda_sdk.session import Callback, DeadLetter, RegistrationFailed, ReportWanted, Superseded

__all__ = [
    "BusError",
    "Callback",
    "ChangedPast",
    "DeadLetter",
    "Full",
    "RegistrationFailed",
    "ReportWanted",
    "ResourceManager",
    "Superseded",
    "Unanswered",
    "application",
    "ask",
    "node",
    "release_of",
    "resource",
]
