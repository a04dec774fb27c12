"""Asks the configuration service what an RM is to run under."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.session import OUTAGE, UNPROCESSABLE, Rm, problems_of
from remuda_rmproxy.translate import Unacceptable


async def resolve(bus: Bus, question: config_pb2.ResolveConfiguration) -> config_pb2.Configuration:
    """Raises Refused: 422 with all problems, or 503 when nobody could be asked."""
    try:
        reply = await bus.request(
            subjects.RESOLVE_CONFIGURATION, question.SerializeToString(), timeout_s=limits.CONFIGURATION_WITHIN_S
        )
    except Refused:
        raise
    except BusError as error:
        raise Refused(f"no configuration service answered: {error}", OUTAGE) from error
    resolved = config_pb2.ResolvedConfiguration.FromString(reply.payload)
    if resolved.problems:
        raise Refused(problems_of(resolved), UNPROCESSABLE)
    return resolved.configuration


async def resolve_registration(bus: Bus, request: si.RegisterResourceManagerRequest) -> config_pb2.Configuration:
    return await resolve(
        bus,
        config_pb2.ResolveConfiguration(
            rm_id=request.rmID,
            policy_group=request.policyGroup,
            config=request.config,
            extra_config=request.extraConfig,
        ),
    )


async def resolve_update(bus: Bus, rm: Rm, update: si.UpdateConfigurationRequest) -> config_pb2.Configuration:
    """An empty policy group keeps the present one, and what `extraConfig` does not name is as it was at the
    registration. Raises Unacceptable."""
    question = config_pb2.ResolveConfiguration(
        rm_id=rm.rm_id,
        policy_group=update.policyGroup or rm.policy_group,
        config=update.config,
        extra_config={**rm.extra_config, **update.extraConfig},
    )
    try:
        return await resolve(bus, question)
    except Refused as refusal:
        raise Unacceptable(f"configuration: {refusal.reason}") from None
