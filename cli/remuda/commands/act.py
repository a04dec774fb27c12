"""Commands with which operators act on what runs. Where keys are in use, they need the key of an operator
(`remuda operator add`); without keys, the operator is the user of the operating system."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client import completion
from ..terminal import arguments
from .options import DEFAULT_URL, AsJson, DefaultRm, Nats

Application = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="applicationID.",
        callback=arguments.application,
        autocompletion=completion.applications,
    ),
]
Queue = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help="Full path of the queue.",
        callback=arguments.queue,
        autocompletion=completion.queues,
    ),
]
Node = Annotated[
    str,
    typer.Argument(metavar="NODE", help="nodeID.", callback=arguments.node, autocompletion=completion.nodes),
]
Reason = Annotated[str, typer.Option(help="The reason, for the log.", callback=arguments.action_reason)]
PartitionOption = Annotated[
    str, typer.Option(help="Partition. Default: default.", callback=arguments.partition, metavar="PARTITION")
]
ActionId = Annotated[
    str | None,
    typer.Option(
        help="ID of an earlier attempt. The action is done once, and the answer is the same. Default: a new one.",
        callback=arguments.action_id,
        metavar="ID",
    ),
]


def kill(
    rm: DefaultRm,
    application: Application,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """End an application: withdraw its asks and have the resource manager release its allocations. Needs the adminacl
    of its queue or of one above."""
    from ..admin.act import Attempt, act

    attempt = Attempt(rm, "kill_application", {"application_id": application}, reason, partition, action_id=action_id)
    act(nats, attempt, f"application {application} is killed", json)


def move(
    rm: DefaultRm,
    application: Application,
    queue: Queue,
    force: Annotated[
        bool, typer.Option("--force", help="Although it breaks soft rules, which the refusal names.")
    ] = False,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Move an application to another queue, with its asks and allocations. Needs the adminacl of both queues, or of
    queues above."""
    from ..admin.act import Attempt, act

    fields: dict[str, str | int] = {"application_id": application, "queue": queue}
    attempt = Attempt(rm, "move_application", fields, reason, partition, force, action_id)
    act(nats, attempt, f"application {application} is in queue {queue}", json)


def hold(
    rm: DefaultRm,
    queue: Queue,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Hold a queue: nothing new is allocated or started in it and below it. Allocations stay. Needs the adminacl of
    the queue or of one above."""
    from ..admin.act import Attempt, act

    attempt = Attempt(rm, "hold_queue", {"queue": queue}, reason, partition, action_id=action_id)
    act(nats, attempt, f"queue {queue} is held", json)


def unhold(
    rm: DefaultRm,
    queue: Queue,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """End the hold of a queue."""
    from ..admin.act import Attempt, act

    attempt = Attempt(rm, "resume_queue", {"queue": queue}, reason, partition, action_id=action_id)
    act(nats, attempt, f"queue {queue} is no longer held", json)


def drain(
    rm: DefaultRm,
    node: Node,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="From then on: in so long (2h), or a time such as 2027-03-01T08:00 (+01:00, Z).",
        ),
    ] = None,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Drain a node: nothing new is allocated there. Allocations stay. With --at, only what ends before that time starts
    there until then. Needs the access list `scheduler.acl`."""
    from ..admin.act import Attempt, act
    from ..terminal.units import time_of

    from_ms = arguments.time_ahead(at) if at is not None else 0
    fields: dict[str, str | int] = {"node_id": node, **({"from_ms": from_ms} if from_ms else {})}
    attempt = Attempt(rm, "drain_node", fields, reason, partition, action_id=action_id)
    when = f"will be drained at {time_of(from_ms)}" if from_ms else "is drained"
    act(nats, attempt, f"node {node} {when}", json)


def undrain(
    rm: DefaultRm,
    node: Node,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """End the draining of a node by an operator. If the resource manager drains the node as well, it stays drained."""
    from ..admin.act import Attempt, act

    attempt = Attempt(rm, "undrain_node", {"node_id": node}, reason, partition, action_id=action_id)
    act(nats, attempt, f"node {node} is no longer drained by an operator", json)


def priority(
    rm: DefaultRm,
    application: Application,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="allocationKey.", callback=arguments.key, autocompletion=completion.pending_keys
        ),
    ],
    value: Annotated[
        int, typer.Argument(metavar="N", min=-(2**31), max=2**31 - 1, help="The new priority. After --: a negative.")
    ],
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Change the priority of a pending ask. Needs the adminacl of its queue or of one above."""
    from ..admin.act import Attempt, act

    fields: dict[str, str | int] = {"application_id": application, "allocation_key": key, "priority": value}
    attempt = Attempt(rm, "change_ask_priority", fields, reason, partition, action_id=action_id)
    act(nats, attempt, f"ask {application}/{key} has priority {value}", json)


def release(
    rm: DefaultRm,
    uuid: Annotated[
        str,
        typer.Argument(
            metavar="UUID",
            help="UUID of the allocation.",
            callback=arguments.uuid,
            autocompletion=completion.allocations,
        ),
    ],
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """Have the resource manager release one allocation. Needs the adminacl of its queue or of one above."""
    from ..admin.act import Attempt, act

    attempt = Attempt(rm, "release_one_allocation", {"uuid": uuid}, reason, partition, action_id=action_id)
    act(nats, attempt, f"the release of {uuid} is requested", json)
