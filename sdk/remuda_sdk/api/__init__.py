"""The scheduler's interface for RMs in Python, as the specification has it (000, API Interface).

The same code talks to a scheduler in its own process (`local:`), over NATS (`nats://`) or over gRPC (`grpc://`).
`remuda_sdk.api.blocking` has the same without asyncio.
"""

from remuda_bus.bus import BusError, Full, Unanswered
from remuda_bus.nats import Access
from remuda_sdk.api.connecting import connect
from remuda_sdk.api.interface import RequestRefused, ResourceManagerCallback, SchedulerAPI, StateDumpPlugin
from remuda_sdk.resource_manager.callbacks import DeadLetter
from remuda_sdk.resource_manager.registration import RegistrationFailed, ReportRequested, Superseded

__all__ = [
    "Access",
    "BusError",
    "DeadLetter",
    "Full",
    "RegistrationFailed",
    "ReportRequested",
    "RequestRefused",
    "ResourceManagerCallback",
    "SchedulerAPI",
    "StateDumpPlugin",
    "Superseded",
    "Unanswered",
    "connect",
]
