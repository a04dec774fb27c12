"""Pools and their configurations."""

from __future__ import annotations

from remuda_proto.peloton.api.v0.respool import respool_pb2 as pb

from ..queries import PoolInfo
from ..rules.pools import ROOT, UNKNOWN_TYPE, ChangeLog, KindConfig, PoolConfig


def config_of(pool_id: str, message: pb.ResourcePoolConfig) -> PoolConfig:
    """Raises nothing: numbers of enumerations that have no name become texts that validation refuses."""
    log = message.changeLog
    return PoolConfig(
        id=pool_id,
        name=message.name,
        parent=message.parent.value,
        resources=tuple(
            KindConfig(one.kind, one.reservation, one.limit, one.share, _type(one.type)) for one in message.resources
        ),
        policy=_policy(message.policy),
        controller_limit_percent=message.controllerLimit.maxPercent if message.HasField("controllerLimit") else None,
        slack_limit_percent=message.slackLimit.maxPercent if message.HasField("slackLimit") else None,
        owning_team=message.owningTeam,
        ldap_groups=tuple(message.ldapGroups),
        description=message.description,
        change_log=ChangeLog(log.version, log.createdAt, log.updatedAt, log.updatedBy)
        if message.HasField("changeLog")
        else None,
    )


def config_message(config: PoolConfig) -> pb.ResourcePoolConfig:
    message = pb.ResourcePoolConfig(
        name=config.name,
        owningTeam=config.owning_team,
        ldapGroups=config.ldap_groups,
        description=config.description,
        policy=pb.SchedulingPolicy.Value(config.policy),
        resources=[
            pb.ResourceConfig(
                kind=one.kind, reservation=one.reservation, limit=one.limit, share=one.share,
                type=pb.ReservationType.Value(one.type),
            )
            for one in config.resources
        ],
    )  # fmt: skip
    if config.parent:
        message.parent.value = config.parent
    if config.controller_limit_percent is not None:
        message.controllerLimit.maxPercent = config.controller_limit_percent
    if config.slack_limit_percent is not None:
        message.slackLimit.maxPercent = config.slack_limit_percent
    if (log := config.change_log) is not None:
        message.changeLog.version, message.changeLog.updatedBy = log.version, log.updated_by
        message.changeLog.createdAt, message.changeLog.updatedAt = log.created_at, log.updated_at
    return message


def info_message(info: PoolInfo) -> pb.ResourcePoolInfo:
    message = pb.ResourcePoolInfo(config=config_message(info.config))
    message.id.value = info.config.id
    if info.config.id != ROOT:
        message.parent.value = info.config.parent
    for child in info.children:
        message.children.add().value = child
    for kind, allocation, slack in info.usage:
        message.usage.add(kind=kind, allocation=allocation, slack=slack)
    message.path.value = info.path
    return message


def _type(number: int) -> str:
    return pb.ReservationType.Name(number) if number in pb.ReservationType.values() else UNKNOWN_TYPE  # type: ignore[arg-type]


def _policy(number: int) -> str:
    known = number in pb.SchedulingPolicy.values()
    return pb.SchedulingPolicy.Name(number) if known else str(number)  # type: ignore[arg-type]
