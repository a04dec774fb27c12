"""Tasks, gangs and placements."""

from __future__ import annotations

from typing import Final

from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.api.v0.task import task_pb2
from remuda_proto.peloton.private.resmgr import resmgr_pb2 as pb

from ..commands import Handed
from ..rules.placement import Placement
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
