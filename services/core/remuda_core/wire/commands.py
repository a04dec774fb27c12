"""Reads commands from messages of the inbox.

Reading never judges: every message that could be parsed becomes commands, and `decide` refuses those that are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from remuda_proto.constants import NODE_PARTITION
from remuda_proto.remuda.v1 import inbox_pb2, predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si

from .. import actions, commands
from .allocations import read_ask, read_reported, read_unplaced
from .by_name import ByName
from .configuration import read_configuration
from .resources import read_resource, read_tags

NONE_UNRESOLVED: Final[Mapping[str, str]] = {}
# Why rmproxy has refused items, by the list of the request and the position in it from 0: of the item itself at 0, of
# the allocations of a node at their positions from 1.
Refusals = Mapping[tuple[str, int], Mapping[int, str]]
NONE_REFUSED: Final[Refusals] = {}
NOT_REFUSED: Final[Mapping[int, str]] = {}


def read_register(message: inbox_pb2.Register) -> Iterable[commands.Command]:
    yield commands.Register(
        message.rm_id, read_configuration(message.configuration), message.version, message.policy_group,
        dict(message.build_info), dict(message.extra_config), message.life, message.registration,
    )  # fmt: skip


def read_configure(message: inbox_pb2.Configure) -> Iterable[commands.Command]:
    yield commands.Configure(read_configuration(message.configuration))


def read_rm_connection(message: inbox_pb2.RmConnection) -> Iterable[commands.Command]:
    yield commands.RmConnection(message.state, message.reason, message.registration)


def refusals_of(message: inbox_pb2.Command) -> Refusals:
    found: dict[tuple[str, int], dict[int, str]] = {}
    for one in message.refused:
        found.setdefault((one.list, one.position), {})[one.existing] = one.reason
    return found


def read_node_request(message: si.NodeRequest, refused: Refusals = NONE_REFUSED) -> Iterable[commands.Command]:
    for position, node in enumerate(message.nodes):
        reasons = refused.get(("nodes", position), NOT_REFUSED)
        existing = tuple(read_reported(allocation) for allocation in node.existingAllocations)
        partition = node.attributes.get(NODE_PARTITION, "")
        try:
            action = si.NodeInfo.ActionFromRM.Name(node.action)
        except ValueError:
            action = str(node.action)
        attributes = dict(node.attributes)
        if node.action == si.NodeInfo.UPDATE and attributes.keys() == {NODE_PARTITION}:
            attributes = {}  # every update names the partition, which is no change of attributes
        yield commands.UpdateNode(
            partition, node.nodeID, action, attributes,
            read_resource(node.schedulableResource) if node.HasField("schedulableResource") else None,
            read_resource(node.occupiedResource) if node.HasField("occupiedResource") else None, existing,
            reasons.get(0, ""), reasons,
        )  # fmt: skip


def read_application_request(
    message: si.ApplicationRequest, refused: Refusals = NONE_REFUSED, unresolved: Mapping[str, str] = NONE_UNRESOLVED
) -> Iterable[commands.Command]:
    """`unresolved`: why the groups of a user are not known."""
    for removed in message.remove:
        yield commands.RemoveApplication(removed.partitionName, removed.applicationID)
    for position, new in enumerate(message.new):
        yield commands.SubmitApplication(
            new.partitionName, new.applicationID, new.queueName, new.ugi.user, tuple(new.ugi.groups), dict(new.tags),
            new.executionTimeoutMilliSeconds, read_resource(new.placeholderAsk), new.gangSchedulingStyle,
            unresolved.get(new.ugi.user, "") if unresolved and not new.ugi.groups else "",
            refused.get(("new", position), NOT_REFUSED).get(0, ""),
        )  # fmt: skip


def read_allocation_request(
    message: si.AllocationRequest, refused: Refusals = NONE_REFUSED
) -> Iterable[commands.Command]:
    """Yields commands in the order in which the parts of a request take effect: reported allocations, asks,
    releases."""
    for position, allocation in enumerate(message.allocations):
        reason = refused.get(("allocations", position), NOT_REFUSED).get(0, "")
        if allocation.nodeID:
            yield commands.RecoverAllocation(read_reported(allocation), reason)
        else:
            yield commands.SubmitAsk(read_unplaced(allocation), True, reason)
    for position, ask in enumerate(message.asks):
        reason = refused.get(("asks", position), NOT_REFUSED).get(0, "") if refused else ""
        yield commands.SubmitAsk(read_ask(ask, read_resource(ask.resourceAsk), read_tags(ask.tags)), False, reason)
    for release in message.releases.allocationsToRelease:
        yield commands.ReleaseAllocation(
            release.partitionName,
            release.applicationID,
            release.UUID or release.allocationID,
            release.terminationType,
            release.message,
            release.allocationKey,
        )
    for withdrawn in message.releases.allocationAsksToRelease:
        yield commands.ReleaseAsk(
            withdrawn.partitionName,
            withdrawn.applicationID,
            withdrawn.allocationKey,
            withdrawn.terminationType,
            withdrawn.message,
        )


def read_verdict(message: predicates_pb2.NodeVerdict) -> commands.Verdict:
    reason = "" if message.accepted else message.reason or "the RM gave no reason"
    return commands.Verdict(message.node_id, reason, message.holds_ms)


def read_predicate_answers(message: inbox_pb2.PredicateAnswers) -> Iterable[commands.Command]:
    for answer in message.answers:
        if answer.of_class:
            verdicts = tuple(map(read_verdict, answer.verdicts))
            yield commands.AnswerPredicates(answer.partition, answer.question, verdicts, answer.reason)
            continue
        yield commands.AnswerPredicate(
            answer.partition, answer.question, answer.success, answer.reason, tuple(answer.spared)
        )


ACTIONS: Final[dict[str, type[actions.Action]]] = {
    "kill_application": actions.KillApplication,
    "move_application": actions.MoveApplication,
    "hold_queue": actions.HoldQueue,
    "resume_queue": actions.ResumeQueue,
    "lend_quota": actions.LendQuota,
    "end_loan": actions.EndLoan,
    "drain_node": actions.DrainNode,
    "undrain_node": actions.UndrainNode,
    "change_ask_priority": actions.ChangeAskPriority,
    "release_one_allocation": actions.ReleaseOneAllocation,
}


CONVERT: Final = ByName({})


def read_administer(message: inbox_pb2.Administer) -> Iterable[commands.Command]:
    name = message.WhichOneof("action")
    action = CONVERT.of(ACTIONS[name], type(getattr(message, name))).read(getattr(message, name)) if name else None
    yield commands.Administer(
        message.operator, tuple(message.groups), message.scheduler_administrator, message.reason, message.action_id,
        message.force, message.partition, action,
    )  # fmt: skip


READERS: Final[dict[str, tuple[str, Callable[..., Iterable[commands.Command]]]]] = {
    "register": ("Register", read_register),
    "configure": ("Configure", read_configure),
    "rm_connection": ("RmConnection", read_rm_connection),
    "node": ("UpdateNode", read_node_request),
    "application": ("UpdateApplication", read_application_request),
    "allocation": ("UpdateAllocation", read_allocation_request),
    "administer": ("Administer", read_administer),
    "predicate_answers": ("AnswerPredicates", read_predicate_answers),
}
# Kinds of requests that have items.
OF_ITEMS: Final = frozenset(["node", "application", "allocation"])
