"""RejectTask of 002: a pod that was approved, and that the default scheduler did not bind, is decided again."""

from __future__ import annotations

from typing import Any

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.effects import Withhold
from remuda_kubernetes.plugin.plugin import PluginShim
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Release
from services.kubernetes.tests.reporting_plugin import NODES, allocated, events, kinds, placed, plugin


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
    ask = it.questions.ask(it.books.pods["uid-p"]).ask
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
    assert it.books.pods["uid-p"].unfit["n1"][1] == NOT_BOUND


def accepted(it: PluginShim) -> dict[str, bool]:
    """The verdicts about the nodes for the pod `p`, by its class."""
    entry = it.books.pods["uid-p"]
    ask = it.questions.ask(entry).ask
    told = it.questions.verdicts("uid-p", ask.tags[names.TAG_PREDICATE_CLASS], NODES)
    return {verdict.node_id: verdict.accepted for verdict in told if verdict.accepted}


def test_pod_that_does_not_fit_is_sent_back_and_kept_off_the_node_for_a_while() -> None:
    it = plugin()
    it.pod_changed(placed("p"))
    allocated(it, "p")
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
