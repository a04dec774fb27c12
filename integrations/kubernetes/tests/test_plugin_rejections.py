"""RejectTask of 002: a pod that was approved, and that the default scheduler did not bind, is decided again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.late_claims import (
    NO_PROVISIONER,
    claim,
    feasible,
    given_to,
    near,
    storage_class,
    volume,
    with_claims,
)
from integrations.kubernetes.tests.reporting_plugin import NODES, allocated, events, kinds, placed, plugin
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.plugin import Approve, Hold, PluginShim, Withhold
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Release


def sent_back(it: PluginShim) -> list[Any]:
    effects = it.take()
    assert kinds(effects)[:2] == ["Release", "Ask"]
    assert "TaskRejected" in events(effects)
    return effects


def test_pod_seen_again_is_sent_back() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    it.filter(placed("p"), NODES)
    verdict = it.filter(placed("p"), NODES)
    assert (verdict.nodes, "was not bound" in verdict.reason) == ((), True)
    (release,) = [effect for effect in sent_back(it) if isinstance(effect, Release)]
    assert release.release.allocationKey == "uid-p"
    assert it.filter(placed("p"), NODES).nodes == ()
    allocated(it, "p", "n2", "u-again")
    it.take()
    assert it.filter(placed("p"), NODES).nodes == ("n2",)


def not_bound(name: str) -> Pod:
    """As the default scheduler writes it when a binding has failed."""
    failed = [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "binding rejected"}]
    return msgspec.convert({**msgspec.to_builtins(placed(name)), "status": {"conditions": failed}}, Pod)


NOT_BOUND = "the default scheduler: default/p was not bound to node n1"


def first_refusal(it: PluginShim) -> str:
    """Of the pod `p`, as `explain` shows it."""
    ask = it.questions.ask(it.cache.pods["uid-p"]).ask
    return next(it.questions.verdicts("uid-p", ask.tags[names.TAG_PREDICATE_CLASS], NODES)).reason


def test_reason_of_the_default_scheduler_is_that_of_the_verdict() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    it.filter(placed("p"), NODES)
    it.filter(not_bound("p"), NODES)
    assert first_refusal(it) == f"{NOT_BOUND}: binding rejected"


def test_reason_that_the_default_scheduler_gives_later() -> None:
    """It asks about the pod again before it has written that the binding failed."""
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    it.filter(placed("p"), NODES)
    it.filter(placed("p"), NODES)
    sent_back(it)
    assert first_refusal(it) == NOT_BOUND
    it.pod_changed(not_bound("p"))
    it.sweep()
    assert kinds(it.take()) == ["Ask"]
    it.pod_changed(not_bound("p"))  # it is said once
    assert first_refusal(it) == f"{NOT_BOUND}: binding rejected"


def test_failed_binding_is_noticed_before_the_pod_is_seen_again() -> None:
    """1.20 does not try it again for a minute: the condition is not a change for it."""
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    it.filter(placed("p"), NODES)
    it.pod_changed(not_bound("p"))
    effects = sent_back(it)
    (told,) = [effect for effect in effects if isinstance(effect, Withhold)]
    assert told.message == first_refusal(it) == f"{NOT_BOUND}: binding rejected"
    allocated(it, "p", "n2", "u-again")
    it.filter(placed("p"), NODES)
    it.take()
    it.pod_changed(not_bound("p"))  # the failure that is known
    assert kinds(it.take()) == []


def test_later_reason_is_not_that_of_another_node() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    it.filter(placed("p"), NODES)
    it.filter(placed("p"), NODES)
    allocated(it, "p", "n2", "u-again")
    it.take()
    it.pod_changed(not_bound("p"))
    assert it.cache.pods["uid-p"].unfit["n1"][1] == NOT_BOUND


def accepted(it: PluginShim) -> dict[str, bool]:
    """The verdicts about the nodes for the pod `p`, by its class."""
    entry = it.cache.pods["uid-p"]
    ask = it.questions.ask(entry).ask
    told = it.questions.verdicts("uid-p", ask.tags[names.TAG_PREDICATE_CLASS], NODES)
    return {verdict.node_id: verdict.accepted for verdict in told if verdict.accepted}


def test_pod_that_does_not_fit_yet_is_tried_again() -> None:
    """Pods that were approved before it, and that it has to keep its distance from, are bound later."""
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    for _ in range(2):
        verdict = it.filter(placed("p"), ["n2"])
        assert (verdict.nodes, verdict.reason) == ((), "default/p does not fit on node n1 yet")
        assert kinds(it.take()) == []
        it.sweep()
        assert kinds(it.take()) == ["Approve"], "once for each time that it was asked about"
    assert it.filter(placed("p"), NODES).nodes == ("n1",)


def test_pod_that_does_not_fit_is_sent_back_and_kept_off_the_node_for_a_while() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    for _ in range(limits.MISFIT_SWEEPS):
        it.sweep()
    it.take()
    assert it.filter(placed("p"), ["n2"]).nodes == ()
    sent_back(it)
    assert accepted(it) == {"n2": True}
    for _ in range(limits.UNFIT_SWEEPS + 1):
        it.sweep()
    assert "Ask" in kinds(it.take())  # it is tried again
    assert accepted(it) == {"n1": True, "n2": True}


def test_approval_that_is_not_asked_about_is_repeated_and_then_taken_back() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
    it.take()
    calls: list[str] = []
    for _ in range(limits.APPROVAL_SWEEPS + 1):
        it.sweep()
        calls += kinds(it.take())
    repeats = limits.APPROVAL_SWEEPS // limits.APPROVAL_REPEAT_SWEEPS - 1
    assert calls == ["Approve"] * repeats + ["Release", "Ask", "Withhold"]


@pytest.mark.parametrize("begun", ["selected", "reserved"])
def test_approval_is_kept_while_the_volumes_of_the_pod_are_bound(begun: str) -> None:
    """The default scheduler gives a provisioner ten minutes, and binds the pod then, whatever has become of its
    approval."""
    it = plugin()
    it.volumes.class_changed(storage_class())
    it.volumes.claim_changed(claim())
    it.pod_changed(placed("p", **with_claims("c")))
    allocated(it, "p")
    it.take()
    it.filter(placed("p", **with_claims("c")), NODES)
    if begun == "selected":
        it.volumes.claim_changed(claim(selected="n1"))
    else:
        it.volumes.volume_changed(volume("v", **given_to("c", "uid-c")))
    it.take()
    for _ in range(int(it.cache.policy.volume_sweeps)):
        it.sweep()
        assert "Release" not in kinds(it.take())
    it.sweep()
    assert "Release" in kinds(it.take())


# Volumes of approved pods


def two_pods_with_claims(hold: Hold = Hold.EXTENDER) -> PluginShim:
    """And one volume, on n1, that suits both claims."""
    it = plugin(hold)
    it.volumes.class_changed(storage_class(provisioner=NO_PROVISIONER))
    it.volumes.volume_changed(volume("v", **near("n1")))
    for name in ("p", "q"):
        it.volumes.claim_changed(claim(name=f"c-{name}"))
        it.pod_changed(placed(name, **with_claims(f"c-{name}")))
    return it


@pytest.mark.parametrize("hold", Hold)
def test_volume_of_an_approved_pod_is_not_free(hold: Hold) -> None:
    it = two_pods_with_claims(hold)
    assert feasible(it, "q") == {"n1"}
    allocated(it, "p")
    it.take()
    assert feasible(it, "q") == set()


def test_volume_is_free_again_when_the_approval_is_taken_back() -> None:
    it = two_pods_with_claims()
    allocated(it, "p")
    it.take()
    for _ in range(limits.APPROVAL_SWEEPS + 1):
        it.sweep()
    assert "Withhold" in kinds(it.take())
    assert feasible(it, "q") == {"n1"}


@pytest.mark.parametrize("hold", Hold)
def test_volume_is_free_again_when_the_approved_pod_is_gone(hold: Hold) -> None:
    it = two_pods_with_claims(hold)
    allocated(it, "p")
    it.take()
    it.pod_gone(placed("p", **with_claims("c-p")))
    assert feasible(it, "q") == {"n1"}


def test_volume_is_free_again_in_another_session() -> None:
    """The scheduler has forgotten what it had allocated."""
    it = two_pods_with_claims()
    allocated(it, "p")
    it.take()
    it.report()
    assert feasible(it, "q") == {"n1"}


def test_volume_of_a_pod_that_was_bound_is_taken_until_its_claim_says_more() -> None:
    it = two_pods_with_claims()
    allocated(it, "p")
    it.take()
    it.pod_changed(placed("p", nodeName="n1", **with_claims("c-p")))
    assert feasible(it, "q") == set()
    it.volumes.claim_changed(claim("another", name="c-p"))
    assert feasible(it, "q") == {"n1"}


def test_volume_is_taken_as_soon_as_the_pod_is_allocated() -> None:
    """Two allocations may come at once."""
    it = two_pods_with_claims()
    allocated(it, "p")
    assert feasible(it, "q") == set()
    allocated(it, "q")
    assert [effect.pod.name for effect in it.take() if isinstance(effect, Approve)] == ["p"]
