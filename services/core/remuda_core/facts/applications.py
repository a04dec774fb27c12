"""Facts about applications."""

from __future__ import annotations

from ..rules.resource import Resource
from .fact import Fact, Tags


class ApplicationAccepted(Fact):
    """`ignored`: what was ignored of the request, because the work of the application runs already; it would have been
    a reason to reject it otherwise."""

    partition: str
    application_id: str
    queue: str
    user: str
    groups: tuple[str, ...]
    tags: Tags
    execution_timeout_ms: int
    placeholder_ask: Resource
    gang_scheduling_style: str
    ignored: str = ""


class ApplicationRejected(Fact):
    """`recorded`: the state keeps a record of the rejection, which queries show."""

    partition: str
    application_id: str
    reason: str
    recorded: bool = False
    queue: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()


class RejectionForgotten(Fact):
    """The record of the rejected application is removed."""

    partition: str
    application_id: str


class ApplicationStateChanged(Fact):
    partition: str
    application_id: str
    state: str
    reason: str
    at_ms: int
    queue: str
    allocated: Resource


class ApplicationRemoved(Fact):
    partition: str
    application_id: str
    queue: str
