"""What the front end takes from the rows of the scheduler after a restart."""

from __future__ import annotations

import pytest

from integrations.kubernetes.tests.objects import node
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import ReportNode
from remuda_kubernetes.shim.resume import KeptState, NodeRow
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si


@pytest.mark.parametrize(
    ("cordoned", "status", "by_operator", "expected"),
    [
        (True, "Schedulable", False, [si.NodeInfo.DRAIN_NODE]),
        (True, "Draining", False, []),
        (False, "Draining", False, [si.NodeInfo.DRAIN_TO_SCHEDULABLE]),
        (False, "Schedulable", False, []),
        # The row does not say what had been reported.
        (True, "Draining", True, [si.NodeInfo.DRAIN_NODE]),
        (False, "Draining", True, [si.NodeInfo.DRAIN_TO_SCHEDULABLE]),
    ],
)
def test_cordon_is_known_after_a_restart(
    cordoned: bool, status: str, by_operator: bool, expected: list[si.NodeInfo.ActionFromRM.ValueType]
) -> None:
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.node_changed(node("n1", cordoned=cordoned))
    drained: dict[str, object] | None = {"operator": "ops"} if by_operator else None
    it.resume(KeptState([NodeRow("n1", {"ready": "true"}, status=status, drained=drained)], [], []))
    sent = [effect.node.action for effect in it.take() if isinstance(effect, ReportNode)]
    assert [action for action in sent if action != si.NodeInfo.UPDATE] == expected
