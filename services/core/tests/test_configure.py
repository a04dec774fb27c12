"""The core refuses configurations with names that it does not know, whatever the verifier lets through."""

from __future__ import annotations

import pytest

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import RegistrationRefused
from remuda_core.index.scores import score_of
from remuda_core.settings import Configuration, PartitionSettings, PlacementRule, QueueSettings

ROOT = QueueSettings("root", parent=True, submit_acl="*")


def refusal(partition: PartitionSettings) -> str:
    facts = Core("rm-1").handle(commands.Register("rm-1", Configuration("1", (partition,))), 0)
    assert [type(fact) for fact in facts] == [RegistrationRefused]
    assert isinstance(facts[0], RegistrationRefused)
    return facts[0].reason


def test_an_unknown_node_sort_policy_is_refused() -> None:
    reason = refusal(PartitionSettings("default", ROOT, node_sort="random"))
    assert reason == "partition default: node sort policy 'random', expected one of fair, binpacking"


def test_an_unknown_node_sort_policy_is_no_score() -> None:
    with pytest.raises(ValueError, match="node sort policy 'random', expected one of fair, binpacking"):
        score_of("random")


def test_an_unknown_placement_rule_is_refused() -> None:
    rule = PlacementRule("user", parent=PlacementRule("moon"))
    reason = refusal(PartitionSettings("default", ROOT, placement_rules=(rule,)))
    assert reason == (
        "placement rule 'moon', expected one of provided, user, primarygroup, secondarygroup, fixed, tag,"
        " applicationtype"
    )
