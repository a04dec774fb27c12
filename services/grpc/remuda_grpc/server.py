"""The gRPC server: its services, health and reflection, on a port with or without TLS."""

from __future__ import annotations

from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from remuda_bus.settings import server_pem
from remuda_grpc import limits
from remuda_grpc.operator_rpcs import OperatorRpcs
from remuda_grpc.resource_manager import ResourceManager
from remuda_grpc.scheduler import Scheduler
from remuda_grpc.settings import GrpcSettings
from remuda_operations.operator_api.methods import SERVICES
from remuda_proto.remuda.v1 import resource_manager_pb2
from remuda_proto.si.v1 import si_pb2 as si

SCHEDULER: Final = si.DESCRIPTOR.services_by_name["Scheduler"].full_name
OPERATOR_SERVICES: Final = tuple(service.full_name for service in SERVICES)
RESOURCE_MANAGER: Final = resource_manager_pb2.DESCRIPTOR.services_by_name["ResourceManager"].full_name
_STREAMS: Final = {"UpdateApplication": "application", "UpdateAllocation": "allocation", "UpdateNode": "node"}
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", limits.REQUEST_BYTES),
    ("grpc.max_send_message_length", -1),  # the bus bounds callbacks
    ("grpc.keepalive_time_ms", round(limits.KEEPALIVE_INTERVAL_S * 1_000)),
    ("grpc.keepalive_timeout_ms", round(limits.KEEPALIVE_TIMEOUT_S * 1_000)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", round(limits.CLIENT_PING_INTERVAL_S * 1_000)),
    ("grpc.max_concurrent_streams", limits.RPCS_OF_CONNECTION),
    ("grpc.so_reuseport", 0),  # two processes on one port would be a mistake
)


class Server:
    """The gRPC server. `port`: the port it listens on, once it is started."""

    def __init__(
        self,
        settings: GrpcSettings,
        scheduler: Scheduler,
        resource_manager: ResourceManager,
        operator_rpcs: OperatorRpcs,
    ) -> None:
        self._settings = settings
        self._server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=limits.RPCS_AT_ONCE)
        services = {
            SCHEDULER: _handlers(scheduler),
            RESOURCE_MANAGER: _handlers_of_rm(resource_manager),
            **{name: operator_rpcs.handlers(name) for name in OPERATOR_SERVICES},
        }
        handlers = [grpc.method_handlers_generic_handler(name, found) for name, found in services.items()]
        self._server.add_generic_rpc_handlers(tuple(handlers))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._services = tuple(services)
        reflected = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(reflected, self._server)
        self.port = 0

    async def start(self) -> None:
        """Starts to listen. Raises OSError when the port is taken, and ValueError when a file of the settings is no
        certificate or key.
        """
        address, credentials = self._settings.address, _credentials(self._settings)
        try:
            if credentials is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from None
        await self.set_serving(False)  # until the methods of operators are on the bus
        await self._server.start()

    async def set_serving(self, serving: bool) -> None:
        """Sets the answer of the health service, for the whole server and for each service."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self) -> None:
        await self._server.stop(limits.STOP_WITHIN_S)


def _handlers(scheduler: Scheduler) -> dict[str, Any]:
    """Without serializers: `Scheduler` takes and gives bytes."""
    register = grpc.unary_unary_rpc_method_handler(scheduler.register_resource_manager)
    streams = {name: grpc.stream_stream_rpc_method_handler(scheduler.stream(kind)) for name, kind in _STREAMS.items()}
    return {"RegisterResourceManager": register, **streams}


def _handlers_of_rm(resource_manager: ResourceManager) -> dict[str, Any]:
    return {
        "Converse": grpc.stream_stream_rpc_method_handler(resource_manager.converse),
        "UpdateConfiguration": grpc.unary_unary_rpc_method_handler(resource_manager.update_configuration),
    }


def _credentials(settings: GrpcSettings) -> Any:
    pem = server_pem("grpc", settings)
    if pem is None:
        return None
    pair = (pem.key, pem.certificate)
    return grpc.ssl_server_credentials([pair], pem.client_ca, require_client_auth=pem.client_ca is not None)
