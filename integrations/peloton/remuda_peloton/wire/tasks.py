"""Tasks, gangs and placements; and tasks as a placement engine reads them, with their constraint and labels."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.api.v0.task import task_pb2
from remuda_proto.peloton.private.resmgr import resmgr_pb2 as pb

from ..commands import Handed
from ..placing import ALL, ANY, EQUAL, GREATER, LESS, UNREADABLE, Combined, Constraint, Label, LabelConstraint, Wanted
from ..rules.hosts import Placement
from ..rules.task import Task

# Fields of a message whose name and meaning a Task shares.
SAME: Final = ("name", "priority", "preemptible", "revocable", "controller", "type", "hostname")


def task_of(message: pb.Task) -> Task:
    resource = message.resource
    return Task(
        id=message.id.value,
        mesos_id=message.taskId.value,
        job_id=message.jobId.value,
        resource=(resource.cpuLimit, resource.gpuLimit, resource.memLimitMb, resource.diskLimitMb),
        fd_limit=resource.fdLimit,
        labels=message.labels.SerializePartialToString() if message.HasField("labels") else b"",
        constraint=message.constraint.SerializeToString() if message.HasField("constraint") else b"",
        num_ports=message.numPorts,
        min_instances=message.minInstances,
        desired_host=message.desiredHost,
        placement_strategy=message.placementStrategy,
        cycles=message.placementRetryCount,
        attempts=message.placementAttemptCount,
        ready_for_host_reservation=message.readyForHostReservation,
        **{name: getattr(message, name) for name in SAME},
    )


def task_message(task: Task) -> pb.Task:
    """The task as its job manager has sent it."""
    message = pb.Task(
        resource=_resource(task),
        numPorts=task.num_ports,
        minInstances=task.min_instances,
        desiredHost=task.desired_host,
        placementStrategy=task.placement_strategy,  # type: ignore[arg-type]
        placementRetryCount=task.cycles,
        placementAttemptCount=task.attempts,
        readyForHostReservation=task.ready_for_host_reservation,
        **{name: getattr(task, name) for name in SAME},
    )
    message.id.value = task.id
    message.taskId.value = task.mesos_id
    if task.job_id:
        message.jobId.value = task.job_id
    if task.labels:
        message.labels.MergeFromString(task.labels)
    if task.constraint:
        message.constraint.MergeFromString(task.constraint)
    return message


def handed_message(one: Handed) -> pb.Task:
    """The task with what the resource manager has added."""
    message = task_message(one.task)
    message.hostname = one.hostname
    message.placementTimeoutSeconds = one.timeout_s
    message.placementRetryCount = one.cycles
    message.placementAttemptCount = one.attempts
    message.readyForHostReservation = one.ready_for_host_reservation
    return message


def placement_of(message: pb.Placement) -> Placement:
    return Placement(
        hostname=message.hostname,
        tasks=tuple((one.pelotonTaskID.value, one.mesosTaskID.value) for one in message.taskIDs),
        type=message.type,
        agent_id=message.agentId.value,
        host_offer_id=message.hostOfferID.value,
        ports=tuple(message.ports),
    )


def placement_message(placement: Placement) -> pb.Placement:
    message = pb.Placement(hostname=placement.hostname, ports=placement.ports, type=placement.type)  # type: ignore[arg-type]
    if placement.agent_id:
        message.agentId.value = placement.agent_id
    if placement.host_offer_id:
        message.hostOfferID.value = placement.host_offer_id
    for task_id, run_id in placement.tasks:
        one = message.taskIDs.add(mesosTaskID=mesos.TaskID(value=run_id))
        one.pelotonTaskID.value = task_id
    return message


def _resource(task: Task) -> task_pb2.ResourceConfig:
    cpu, gpu, memory, disk = task.resource
    return task_pb2.ResourceConfig(
        cpuLimit=cpu, gpuLimit=gpu, memLimitMb=memory, diskLimitMb=disk, fdLimit=task.fd_limit
    )


_CONDITIONS = {
    task_pb2.LabelConstraint.CONDITION_LESS_THAN: LESS,
    task_pb2.LabelConstraint.CONDITION_EQUAL: EQUAL,
    task_pb2.LabelConstraint.CONDITION_GREATER_THAN: GREATER,
}


def wanted_of(message: pb.Task) -> Wanted:
    constraint = constraint_of(message.constraint) if message.HasField("constraint") else None
    return Wanted(task_of(message), constraint, _pairs(message.labels))


def labels_of(payload: bytes) -> tuple[Label, ...]:
    """The labels in an encoded message. `payload`: an encoded mesos.v1.Labels."""
    labels = mesos.Labels()
    try:
        labels.MergeFromString(payload)
    except DecodeError:
        return ()
    return _pairs(labels)


def constraint_of(message: task_pb2.Constraint) -> Constraint:
    """A constraint of an unknown kind or condition is one that no host satisfies."""
    if message.type == task_pb2.Constraint.AND_CONSTRAINT:
        return Combined(ALL, tuple(map(constraint_of, message.andConstraint.constraints)))
    if message.type == task_pb2.Constraint.OR_CONSTRAINT:
        return Combined(ANY, tuple(map(constraint_of, message.orConstraint.constraints)))
    label = message.labelConstraint
    condition = _CONDITIONS.get(label.condition)
    kinds = (task_pb2.LabelConstraint.TASK, task_pb2.LabelConstraint.HOST)
    if message.type != task_pb2.Constraint.LABEL_CONSTRAINT or condition is None or label.kind not in kinds:
        return UNREADABLE
    pair = (label.label.key, label.label.value)
    return LabelConstraint(pair, condition, label.requirement, label.kind == task_pb2.LabelConstraint.TASK)


def _pairs(labels: mesos.Labels) -> tuple[Label, ...]:
    return tuple((one.key, one.value) for one in labels.labels)
