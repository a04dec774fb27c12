"""Commands with which operators act on what runs. Where keys are in use, they need the key of an operator
(`remuda operator add`); without keys, the operator is the user of the operating system."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from ..client import completion
from ..errors import UserError
from ..terminal import arguments
from ..terminal.formats import parameters_of, with_parameters
from .options import DEFAULT_URL, AsJson, DefaultRm, Nats, argument

Application = Annotated[str, argument("APP", "applicationID.", arguments.application, completion.applications)]
Queue = Annotated[str, argument("QUEUE", "Full path of the queue.", arguments.queue, completion.queues)]
Node = Annotated[str, argument("NODE", "nodeID.", arguments.node, completion.nodes)]
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


Fields = Mapping[str, str | int | Mapping[str, int]]


Described = tuple[Fields, str] | tuple[Fields, str, str]


def _options(
    rm: DefaultRm,
    reason: Reason = "",
    partition: PartitionOption = "",
    action_id: ActionId = None,
    nats: Nats = DEFAULT_URL,
    json: AsJson = False,
) -> None:
    """The parameters of every action. The RM is the first argument."""


def _action(kind: str) -> Callable[[Callable[..., Described]], Callable[..., None]]:
    """Makes a command of a function of an action's own arguments, which returns the fields of the action's message in
    `inbox.proto`, what holds once the action is accepted, and the kind of action if it is another one. The argument
    `force` is an option of the action."""
    rm, *options = parameters_of(_options)

    def command(described: Callable[..., Described]) -> Callable[..., None]:
        @functools.wraps(described)
        def run(rm: str, reason: str, partition: str, action_id: str | None, nats: str, json: bool, **own: Any) -> None:
            from ..admin.act import Attempt, act

            fields, done, *other = described(**own)
            attempt = Attempt(
                rm, other[0] if other else kind, fields, reason, partition, own.get("force", False), action_id
            )
            act(nats, attempt, done, json)

        return with_parameters(run, [rm, *parameters_of(described), *options])

    return command


@_action("kill_application")
def kill(application: Application) -> tuple[Fields, str]:
    """End an application: withdraw its asks and have the resource manager release its allocations. Needs the adminacl
    of its queue or of one above."""
    return {"application_id": application}, f"application {application} is killed"


@_action("move_application")
def move(
    application: Application,
    queue: Queue,
    force: Annotated[
        bool, typer.Option("--force", help="Although it breaks soft rules, which the refusal names.")
    ] = False,
) -> tuple[Fields, str]:
    """Move an application to another queue, with its asks and allocations. Needs the adminacl of both queues, or of
    queues above."""
    return {"application_id": application, "queue": queue}, f"application {application} is in queue {queue}"


@_action("hold_queue")
def hold(queue: Queue) -> tuple[Fields, str]:
    """Hold a queue: nothing new is allocated or started in it and below it. Allocations stay. Needs the adminacl of
    the queue or of one above."""
    return {"queue": queue}, f"queue {queue} is held"


@_action("resume_queue")
def unhold(queue: Queue) -> tuple[Fields, str]:
    """End the hold of a queue."""
    return {"queue": queue}, f"queue {queue} is no longer held"


@_action("lend_quota")
def lend(
    queue: Annotated[str, argument("FROM", "The queue that lends.", arguments.queue, completion.queues)],
    borrower: Annotated[str, argument("TO", "The queue that borrows.", arguments.queue, completion.queues)],
    amounts: Annotated[
        list[str] | None, typer.Argument(metavar="[RESOURCE=AMOUNT]...", help="How much, as in queues.yaml: vcore=100.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="For so long (2h), or until a time such as 08:00."),
    ] = None,
    guarantee: Annotated[bool, typer.Option("--guarantee", help="Of the guarantee, not of the maximum.")] = False,
    end: Annotated[bool, typer.Option("--end", help="End the loan.")] = False,
) -> Described:
    """Lend amounts of the maximum of a queue to another one until a time; with --end, end that. Needs the adminacl of
    both queues, or of queues above; to end it, of one of them."""
    from ..terminal.units import time_of

    if end:
        if amounts or until or guarantee:
            raise UserError("--end: expected no amounts, no --until and no --guarantee beside it")
        done = f"queue {queue} no longer lends to queue {borrower}"
        return {"queue": queue, "borrower": borrower}, done, "end_loan"
    if not amounts or until is None:
        raise UserError("expected amounts, such as vcore=100, and --until TIME; or --end")
    until_ms = arguments.time_ahead(until)
    fields: Fields = {
        "queue": queue, "borrower": borrower, "amounts": dict(map(arguments.amount, amounts)),
        "guaranteed": guarantee, "until_ms": until_ms,
    }  # fmt: skip
    return fields, f"queue {queue} lends to queue {borrower} until {time_of(until_ms)}"


@_action("drain_node")
def drain(
    node: Node,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="From then on: in so long (2h), or a time such as 2027-03-01T08:00 (+01:00, Z).",
        ),
    ] = None,
) -> tuple[Fields, str]:
    """Drain a node: nothing new is allocated there. Allocations stay. With --at, only what ends before that time starts
    there until then. Needs the access list `scheduler.acl`."""
    from ..terminal.units import time_of

    if at is None:
        return {"node_id": node}, f"node {node} is drained"
    from_ms = arguments.time_ahead(at)
    return {"node_id": node, "from_ms": from_ms}, f"node {node} will be drained at {time_of(from_ms)}"


@_action("undrain_node")
def undrain(node: Node) -> tuple[Fields, str]:
    """End the draining of a node by an operator. If the resource manager drains the node as well, it stays drained."""
    return {"node_id": node}, f"node {node} is no longer drained by an operator"


@_action("change_ask_priority")
def priority(
    application: Application,
    key: Annotated[str, argument("KEY", "allocationKey.", arguments.key, completion.pending_keys)],
    value: Annotated[
        int, typer.Argument(metavar="N", min=-(2**31), max=2**31 - 1, help="The new priority. After --: a negative.")
    ],
) -> tuple[Fields, str]:
    """Change the priority of a pending ask. Needs the adminacl of its queue or of one above."""
    fields: Fields = {"application_id": application, "allocation_key": key, "priority": value}
    return fields, f"ask {application}/{key} has priority {value}"


@_action("release_one_allocation")
def release(
    uuid: Annotated[str, argument("UUID", "UUID of the allocation.", arguments.uuid, completion.allocations)],
) -> tuple[Fields, str]:
    """Have the resource manager release one allocation. Needs the adminacl of its queue or of one above."""
    return {"uuid": uuid}, f"the release of {uuid} is requested"
