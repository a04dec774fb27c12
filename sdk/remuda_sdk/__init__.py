"""The SDK for resource managers (RMs): the client, builders of messages, callbacks and errors.

The messages are the generated classes of `remuda_proto.si.v1.si_pb2`. README.md introduces the SDK.
"""

from remuda_bus.bus import BusError, Full, HistoryChanged, Unanswered
from remuda_sdk.resource_manager.build import application, ask, node, release_of, resource
from remuda_sdk.resource_manager.callbacks import Callback, DeadLetter
from remuda_sdk.resource_manager.client import ResourceManager
from remuda_sdk.resource_manager.registration import RegistrationFailed, ReportRequested, Superseded

__all__ = [
    "BusError",
    "Callback",
    "DeadLetter",
    "Full",
    "HistoryChanged",
    "RegistrationFailed",
    "ReportRequested",
    "ResourceManager",
    "Superseded",
    "Unanswered",
    "application",
    "ask",
    "node",
    "release_of",
    "resource",
]
