"""Tasks as a placement engine reads them: with their constraint and labels."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.api.v0.task import task_pb2 as pb
from remuda_proto.peloton.private.resmgr import resmgr_pb2

from ..placing.constraints import (
    ALL,
    ANY,
    EQUAL,
    GREATER,
    LESS,
    UNREADABLE,
    Combined,
    Constraint,
    Label,
    LabelConstraint,
)
from ..placing.place import Wanted
from .tasks import task_of

_CONDITIONS = {
    pb.LabelConstraint.CONDITION_LESS_THAN: LESS,
    pb.LabelConstraint.CONDITION_EQUAL: EQUAL,
    pb.LabelConstraint.CONDITION_GREATER_THAN: GREATER,
}


def wanted_of(message: resmgr_pb2.Task) -> Wanted:
    constraint = constraint_of(message.constraint) if message.HasField("constraint") else None
    return Wanted(task_of(message), constraint, _pairs(message.labels))


def labels_of(payload: bytes) -> tuple[Label, ...]:
    """`payload`: an encoded mesos.v1.Labels."""
    labels = mesos.Labels()
    try:
        labels.MergeFromString(payload)
    except DecodeError:
        return ()
    return _pairs(labels)


def constraint_of(message: pb.Constraint) -> Constraint:
    """A constraint of an unknown kind or condition is one that no host satisfies."""
    if message.type == pb.Constraint.AND_CONSTRAINT:
        return Combined(ALL, tuple(map(constraint_of, message.andConstraint.constraints)))
    if message.type == pb.Constraint.OR_CONSTRAINT:
        return Combined(ANY, tuple(map(constraint_of, message.orConstraint.constraints)))
    label = message.labelConstraint
    condition = _CONDITIONS.get(label.condition)
    kinds = (pb.LabelConstraint.TASK, pb.LabelConstraint.HOST)
    if message.type != pb.Constraint.LABEL_CONSTRAINT or condition is None or label.kind not in kinds:
        return UNREADABLE
    pair = (label.label.key, label.label.value)
    return LabelConstraint(pair, condition, label.requirement, label.kind == pb.LabelConstraint.TASK)


def _pairs(labels: mesos.Labels) -> tuple[Label, ...]:
    return tuple((one.key, one.value) for one in labels.labels)
