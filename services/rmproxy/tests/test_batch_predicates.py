"""Answers of an RM about many nodes."""

from __future__ import annotations

from remuda_proto.remuda.v1 import log_pb2, predicates_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.predicates import batch_answer

ABOUT_CLASS = log_pb2.PredicatesAsked(
    partition="[rm-1]default", predicate_class="c", application_id="app", allocation_key="k", node_ids=["n1", "n2"],
    question=7,
)  # fmt: skip
ABOUT_NODE = log_pb2.PredicateAsked(
    partition="[rm-1]default", predicate_class="c", application_id="app", allocation_key="k", node_id="n1", question=8
)


def response(*verdicts: predicates_pb2.NodeVerdict) -> bytes:
    return predicates_pb2.BatchPredicatesResponse(verdicts=verdicts).SerializeToString()


def test_verdicts_about_a_class_are_passed_on() -> None:
    given = (
        predicates_pb2.NodeVerdict(node_id="n1", accepted=True),
        predicates_pb2.NodeVerdict(node_id="n2", reason="no disk"),
    )
    answer = batch_answer(ABOUT_CLASS, response(*given))
    assert (answer.question, answer.of_class, tuple(answer.verdicts), answer.reason) == (7, True, given, "")


def test_more_verdicts_than_nodes_refuse_all() -> None:
    """The core serves other RMs, too: 250,000 empty verdicts fit into an answer."""
    many = response(*([predicates_pb2.NodeVerdict(node_id="n1", accepted=True)] * 3))
    answer = batch_answer(ABOUT_CLASS, many)
    assert (len(answer.verdicts), answer.reason) == (0, "the answer has 3 verdicts, expected at most 2")
    answer = batch_answer(ABOUT_NODE, many)
    assert (answer.success, answer.reason) == (False, "the answer has 3 verdicts, expected at most 1")


def test_answers_that_cannot_be_read_refuse() -> None:
    answer = batch_answer(ABOUT_CLASS, b"\xff")
    assert "not a BatchPredicatesResponse" in answer.reason and not answer.verdicts
    answer = batch_answer(ABOUT_NODE, b"\0" * (limits.BATCH_ANSWER_BYTES + 1))
    assert (answer.success, answer.reason.split(",")[0]) == (
        False,
        f"the answer has {limits.BATCH_ANSWER_BYTES + 1} bytes",
    )
