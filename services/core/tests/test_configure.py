"""The core refuses configurations with names that it does not know, whatever the verifier lets through."""

from __future__ import annotations

import pytest

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import ConfigurationApplied, ConfigurationRefused, Fact, RegistrationRefused
from remuda_core.index.scores import SCORES, score_of
from remuda_core.settings import Configuration, PartitionSettings, PlacementRule, QueueSettings

ROOT = QueueSettings("root", parent=True, submit_acl="*")


def refusal(partition: PartitionSettings) -> str:
    facts = Core("rm-1").handle(commands.Register("rm-1", Configuration("1", (partition,))), 0)
    assert [type(fact) for fact in facts] == [RegistrationRefused]
    assert isinstance(facts[0], RegistrationRefused)
    return facts[0].reason


def test_an_unknown_node_sort_policy_is_refused() -> None:
    reason = refusal(PartitionSettings("default", ROOT, node_sort="random"))
    assert reason == f"partition default: node sort policy 'random', expected one of {', '.join(SCORES)}"


def test_an_unknown_node_sort_policy_is_no_score() -> None:
    with pytest.raises(ValueError, match=f"node sort policy 'random', expected one of {', '.join(SCORES)}"):
        score_of("random")


def test_an_unknown_placement_rule_is_refused() -> None:
    rule = PlacementRule("user", parent=PlacementRule("moon"))
    reason = refusal(PartitionSettings("default", ROOT, placement_rules=(rule,)))
    assert reason == (
        "placement rule 'moon', expected one of provided, user, primarygroup, secondarygroup, fixed, tag,"
        " applicationtype"
    )


def version(number: int, text: str) -> Configuration:
    return Configuration(text, (PartitionSettings("default", ROOT),), revision=number)


def test_a_late_version_is_refused() -> None:
    """Of two configuration services, one may be behind; and a message may take long."""
    core = Core("rm-1")

    def applied(number: int, text: str) -> list[Fact]:
        return core.handle(commands.Configure(version(number, text)), 0)

    core.handle(commands.Register("rm-1", version(3, "c")), 0)
    (late,) = applied(2, "b")
    assert isinstance(late, ConfigurationRefused)
    assert late.reason == "version 2 of the file is late: version 3 is in force"
    assert core.state.configuration is not None
    assert (core.state.configuration.checksum, core.state.configuration.revision) == ("c", 3)
    assert applied(3, "c") == []
    # The same text again is another version: the one before it must not return.
    assert [type(fact) for fact in applied(5, "c")] == [ConfigurationApplied]
    assert [type(fact) for fact in applied(4, "d")] == [ConfigurationRefused]
    # A text that is not of the file has no number, and a registration begins anew.
    assert [type(fact) for fact in applied(0, "own")] == [ConfigurationApplied]
    core.handle(commands.Register("rm-1", version(2, "b")), 0)
    assert core.state.configuration.revision == 2
