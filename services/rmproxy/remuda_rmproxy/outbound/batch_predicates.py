"""Questions to an RM that answers in batches, and its answers (remuda.v1, predicates.proto). Pure.

The core asks such an RM about many nodes for a class of asks; or about the one node of a placement that cannot wait, as
that of a reservation. Both are the same message to the RM.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from remuda_proto.remuda.v1 import inbox_pb2, log_pb2, predicates_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callbacks import Question
from remuda_rmproxy.records.partitions import PlainNames

NO_VERDICT = "the RM gave no verdict"


def is_batch(question: Question) -> bool:
    """The RM of this question answers in batches."""
    return not isinstance(question, log_pb2.PreemptionAsked) and bool(question.predicate_class)


def batch_request(question: Question, rm_id: str) -> predicates_pb2.BatchPredicatesRequest:
    assert not isinstance(question, log_pb2.PreemptionAsked), "there is no batch of preemptions"
    return predicates_pb2.BatchPredicatesRequest(
        rm_id=rm_id,
        partition=PlainNames(rm_id)[question.partition],
        predicate_class=question.predicate_class,
        application_id=question.application_id,
        allocation_key=question.allocation_key,
        resource=question.resource,
        tags=question.tags,
        node_ids=_nodes_of(question),
    )


def batch_answer(question: Question, payload: bytes) -> inbox_pb2.PredicateAnswer:
    """The answer for the core. A reply that cannot be read, or has more verdicts than the question has nodes, refuses
    all nodes. The core ignores verdicts about other nodes."""
    answer = inbox_pb2.PredicateAnswer(partition=question.partition, question=question.question)
    response, problem = predicates_pb2.BatchPredicatesResponse(), ""
    if len(payload) > limits.BATCH_ANSWER_BYTES:
        problem = f"the answer has {len(payload)} bytes, expected at most {limits.BATCH_ANSWER_BYTES}"
    else:
        try:
            response.ParseFromString(payload)
        except DecodeError as error:
            problem = f"the answer is not a BatchPredicatesResponse: {error}"
    nodes = _nodes_of(question)
    if len(response.verdicts) > len(nodes):  # the core, which serves other RMs too, would go through all of them
        problem = f"the answer has {len(response.verdicts)} verdicts, expected at most {len(nodes)}"
        response.Clear()
    if isinstance(question, log_pb2.PredicatesAsked):
        answer.of_class = True
        answer.verdicts.extend(response.verdicts)
        answer.reason = problem
    else:
        verdict = next((given for given in response.verdicts if given.node_id in nodes), None)
        answer.success = verdict is not None and verdict.accepted
        if not answer.success:
            reason = problem or NO_VERDICT if verdict is None else verdict.reason
            answer.reason = reason[: limits.PREDICATE_REASON_CHARACTERS]
    return answer


def _nodes_of(question: Question) -> list[str]:
    return list(question.node_ids) if isinstance(question, log_pb2.PredicatesAsked) else [question.node_id]
