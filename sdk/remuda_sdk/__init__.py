"""The SDK for resource managers (RMs): the client, builders of messages, callbacks and errors.

The messages are the generated classes of `remuda_proto.si.v1.si_pb2`. README.md introduces the SDK.
"""

from remuda_bus.bus import BusError, Full, HistoryChanged, Unanswered
from remuda_sdk.resource_manager.build import (
    application,
    ask,
    devices_of,
    node,
    on_devices,
    release_of,
    resource,
    together,
    with_devices,
)
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
    "devices_of",
    "node",
    "on_devices",
    "release_of",
    "resource",
    "together",
    "with_devices",
]
