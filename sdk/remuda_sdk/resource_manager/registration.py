"""The request of an RM that registers (000, RegisterResourceManagerRequest). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments

# Keys of extraConfig at the registration (000, extraConfig).
EVENTS = "events"  # the RM reads events: a consumer is created for it
RESYNC = "resync"  # how an RM that registers again is synchronised
HEARTBEAT_INTERVAL = "heartbeat.interval"

Resync = Literal["report", "replay"]
RESYNCS: tuple[Resync, ...] = get_args(Resync)


def registration_request(
    rm_id: str,
    policy_group: str,
    config: str,
    extra_config: Mapping[str, str] | None,
    version: str,
    build_info: Mapping[str, str] | None,
    resync: Resync | None,
    heartbeat_s: float | None,
) -> si.RegisterResourceManagerRequest:
    """The request, from the arguments of `ResourceManager.connect`. Raises ValueError, which names the argument."""
    request = si.RegisterResourceManagerRequest(
        rmID=arguments.text("rm_id", rm_id),
        policyGroup=arguments.text("policy_group", policy_group),
        config=arguments.text("config", config),
        extraConfig=arguments.text_map("extra_config", extra_config),
        version=arguments.text("version", version),
        buildInfo=arguments.text_map("build_info", build_info),
    )
    if resync is not None:
        request.extraConfig[RESYNC] = arguments.one_of("resync", resync, RESYNCS)
    if heartbeat_s is not None:
        interval_ms = round(arguments.seconds("heartbeat_s", heartbeat_s, 0.001) * 1_000)
        request.extraConfig[HEARTBEAT_INTERVAL] = f"{interval_ms}ms"
    return request
