"""Questions of the scheduler about classes of pods, and what follows from the answers."""

from __future__ import annotations

from typing import Any

import pytest

from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.predicates.predicates import class_of
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, Bind, DeletePod, Release, ReportNode
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, AskRow, KeptState, NodeRow, ReplacementRow
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
WEB = {"app": "web"}


def asked(of: Shim, name: str, **spec: Any) -> str:
    """Creates the pod; returns the predicate class of its ask."""
    of.pod_changed(pod(name, app="app", **spec))
    return classes(of)[-1]


def classes(of: Shim) -> list[str]:
    return [effect.ask.tags[names.TAG_PREDICATE_CLASS] for effect in of.take() if isinstance(effect, Ask)]


def accepted(of: Shim, name: str, predicate_class: str, *nodes: str) -> list[str]:
    verdicts = of.questions.verdicts(f"uid-{name}", predicate_class, nodes)
    return [one.node_id for one in verdicts if one.accepted]


def allocated(of: Shim, name: str, on: str) -> None:
    new = si.Allocation(allocationKey=f"uid-{name}", UUID=f"u-{name}", nodeID=on, applicationID="default.app")
    of.allocation(si.AllocationResponse(new=[new]))


def test_pods_of_one_template_are_one_class() -> None:
    it = shim("n1", "n2")
    index = "batch.kubernetes.io/job-completion-index"
    of = asked(it, "p", nodeSelector={"kubernetes.io/hostname": "n2"}, labels={index: "1"})
    assert of == asked(it, "q", nodeSelector={"kubernetes.io/hostname": "n2"}, labels={index: "2"})
    assert of != asked(it, "r", nodeSelector={"kubernetes.io/hostname": "n1"}, labels={index: "1"})
    assert accepted(it, "p", of, "n1", "n2", "n3") == ["n2"]


def test_question_about_a_pod_that_is_gone_is_about_its_class() -> None:
    it = shim("n1", "n2")
    of = asked(it, "p", nodeSelector={"kubernetes.io/hostname": "n2"})
    it.pod_gone(pod("p", app="app"))
    assert accepted(it, "p", of, "n1", "n2") == ["n2"]
    with pytest.raises(LookupError):
        accepted(it, "p", "another", "n1")


def test_pods_that_keep_away_from_each_other_get_a_node_each() -> None:
    it = shim("n1", "n2")
    found = [asked(it, name, affinity=ALONE, labels=WEB) for name in "pqr"]
    assert len(set(found)) == 3
    nodes = [accepted(it, name, of, "n1", "n2") for name, of in zip("pqr", found, strict=True)]
    assert nodes == [["n1"], ["n2"], []]


def test_refused_pod_is_asked_for_again_in_another_class_when_there_is_room() -> None:
    it = shim("n1")
    before = [asked(it, name, affinity=ALONE, labels=WEB) for name in "pq"]
    assert accepted(it, "p", before[0], "n1") == ["n1"]
    assert accepted(it, "q", before[1], "n1") == []
    it.questions.sweep()
    (second,) = classes(it)
    assert accepted(it, "q", second, "n1") == []
    it.questions.sweep()
    assert classes(it) == []
    it.pod_gone(pod("p", app="app"))
    it.questions.sweep()
    (again,) = classes(it)
    assert len({again, second, before[1]}) == 3
    assert accepted(it, "q", again, "n1") == ["n1"]


def test_second_ask_is_withdrawn_when_the_first_was_allocated_meanwhile() -> None:
    """The scheduler takes an ask that comes after the allocation for another one."""
    it = shim("n1", "n2")
    of = asked(it, "p", affinity=ALONE, labels=WEB)
    assert accepted(it, "p", of, "n1") == ["n1"]
    for _ in range(20):
        it.questions.sweep()
    assert len(classes(it)) == 1
    allocated(it, "p", "n1")
    effects = it.take()
    (withdrawn,) = [effect.release for effect in effects if isinstance(effect, Release)]
    assert isinstance(withdrawn, si.AllocationAskRelease) and withdrawn.allocationKey == "uid-p"
    assert [effect.node for effect in effects if isinstance(effect, Bind)] == ["n1"]


@pytest.mark.parametrize("is_read", [False, True])
def test_ask_of_an_earlier_process_is_withdrawn_when_its_pod_is_allocated(is_read: bool) -> None:
    """The allocation has been made when the state is read, or comes later: the scheduler lists no ask that is on its
    way."""
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.node_changed(node("n1"))
    it.pod_changed(pod("p", app="app"))
    state = KeptState([NodeRow("n1")], [ApplicationRow("default.app", "Running")])
    if is_read:
        state.asks = [AskRow("default.app", "uid-p")]
        state.allocations = [AllocationRow("u-p", "default.app", "uid-p", "n1")]
    it.resume(state)
    if not is_read:
        assert len(classes(it)) == 1
        allocated(it, "p", "n1")
    effects = it.take()
    releases = [effect.release for effect in effects if isinstance(effect, Release)]
    assert releases and {(type(one), one.allocationKey) for one in releases} == {(si.AllocationAskRelease, "uid-p")}
    assert [effect.node for effect in effects if isinstance(effect, Bind)] == ["n1"]
    assert not [effect for effect in effects if isinstance(effect, Ask)]


def resumed_in_a_replacement(*pods: str, asked: str = "") -> Shim:
    """The ask of `p` replaces a placeholder that the scheduler wants to be released. `asked`: it is listed as well."""
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.node_changed(node("n1"))
    for name in pods:
        annotations = {names.PLACEHOLDER: "true"} if name == "tg" else None
        it.pod_changed(pod(name, app="app", annotations=annotations, node="n1" if name == "tg" else ""))
    placeholder = AllocationRow(
        "u-tg", "default.app", "uid-tg", "n1", si.PLACEHOLDER_REPLACED, replacement=ReplacementRow("uid-p")
    )
    asks = [AskRow("default.app", asked)] if asked else []
    it.resume(KeptState([NodeRow("n1")], [ApplicationRow("default.app", "Running")], asks, [placeholder]))
    return it


@pytest.mark.parametrize("asked", ["", "uid-p"])
def test_pod_that_replaces_a_placeholder_at_a_restart_is_not_asked_for_again(asked: str) -> None:
    """The replacement may have begun after the asks were read."""
    it = resumed_in_a_replacement("tg", "p", asked=asked)
    effects = it.take()
    assert not [effect for effect in effects if isinstance(effect, Ask | Release)]
    assert [effect.pod.uid for effect in effects if isinstance(effect, DeletePod)] == ["uid-tg"]
    it.pod_gone(pod("tg", app="app", node="n1"))
    (confirmed,) = [effect.release for effect in it.take() if isinstance(effect, Release)]
    assert (confirmed.allocationKey, confirmed.terminationType) == ("uid-tg", si.PLACEHOLDER_REPLACED)
    allocated(it, "p", "n1")
    effects = it.take()
    assert [effect.node for effect in effects if isinstance(effect, Bind)] == ["n1"]
    assert not [effect for effect in effects if isinstance(effect, Ask | Release)]


def test_replacement_of_a_pod_that_has_gone_meanwhile_is_withdrawn() -> None:
    effects = resumed_in_a_replacement("tg").take()
    (withdrawn,) = [effect.release for effect in effects if isinstance(effect, Release)]
    assert isinstance(withdrawn, si.AllocationAskRelease)
    assert (withdrawn.applicationID, withdrawn.allocationKey) == ("default.app", "uid-p")


def test_agreement_without_an_allocation_expires() -> None:
    it = shim("n1")
    before = [asked(it, name, affinity=ALONE, labels=WEB) for name in "pq"]
    assert accepted(it, "p", before[0], "n1") == ["n1"]
    for _ in range(20):
        it.questions.sweep()
    assert len(classes(it)) == 1
    assert accepted(it, "q", before[1], "n1") == ["n1"]


def test_allocation_that_does_not_suit_any_more_is_given_back() -> None:
    """The node has got a taint since the verdict. The verdicts about it are void."""
    it = shim("n1")
    asked(it, "p")
    it.node_changed(node("n1", taints=[{"key": "k", "effect": "NoSchedule"}]))
    (tainted,) = [effect.node for effect in it.take() if isinstance(effect, ReportNode)]
    allocated(it, "p", "n1")
    effects = it.take()
    assert not [effect for effect in effects if isinstance(effect, Bind)]
    assert [effect.release.UUID for effect in effects if isinstance(effect, Release)] == ["u-p"]  # type: ignore[union-attr]
    assert [effect.ask.allocationKey for effect in effects if isinstance(effect, Ask)] == ["uid-p"]
    (refused,) = [effect.node for effect in effects if isinstance(effect, ReportNode)]
    assert refused.attributes[names.ATTRIBUTE_PREDICATES] != tainted.attributes[names.ATTRIBUTE_PREDICATES]


def test_node_is_reported_when_its_labels_change_and_not_for_a_heartbeat() -> None:
    it = shim("n1")
    it.node_changed(node("n1", zone="a"))
    assert [type(effect) for effect in it.take()] == [ReportNode]
    it.node_changed(node("n1", zone="a"))
    assert it.take() == []


def test_preemption_takes_as_few_victims_as_suffice() -> None:
    it = shim("n1")
    for number, labels in enumerate((None, WEB, WEB, None)):
        it.pod_changed(pod(f"v{number}", scheduler="another", node="n1", labels=labels))
    asked(it, "p", affinity=ALONE)
    victims = [f"uid-v{number}" for number in range(4)]
    assert it.predicates.fits_without("uid-p", "n1", victims, 0) == 2
    assert it.predicates.fits_without("uid-p", "n1", victims, 3) == 3
    assert it.predicates.fits_without("uid-p", "n1", victims[:2], 0) is None


def test_class_does_not_depend_on_the_name() -> None:
    assert class_of(pod("p"), 0) == class_of(pod("q"), 1)


def test_verdicts_about_an_ask_do_not_count_for_the_next_one() -> None:
    """The application completes, and its asks go with it. The scheduler keeps the verdicts for an hour."""
    it = shim("n1")
    first = [asked(it, name, affinity=ALONE, labels=WEB) for name in "pq"]
    assert (accepted(it, "p", first[0], "n1"), accepted(it, "q", first[1], "n1")) == (["n1"], [])
    completed = si.UpdatedApplication(applicationID="default.app", state="Completed")
    it.application(si.ApplicationResponse(updated=[completed]))
    assert not set(classes(it)) & set(first)


def test_verdicts_do_not_count_for_a_pod_that_comes_back() -> None:
    it = shim("n1", "n2")
    first = asked(it, "p", affinity=ALONE, labels=WEB)
    allocated(it, "p", "n2")
    it.take()
    it.binding_failed("uid-p", "n2", "no")
    (again,) = classes(it)
    assert again != first


def resumed(*, ask: str = "", allocation: str = "", affinity: Any = ALONE) -> Shim:
    """Its pod `p` was asked for, or allocated, in this class."""
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.node_changed(node("n1"))
    it.pod_changed(pod("p", app="app", affinity=affinity, labels=WEB))
    state = KeptState([NodeRow("n1")], [ApplicationRow("default.app", "Running")])
    tags = {names.TAG_PREDICATE_CLASS: ask or allocation}
    if ask:
        known = it.questions.ask(it.cache.pods["uid-p"]).ask
        amounts = {name: one.value for name, one in known.resourceAsk.resources.items()}
        state.asks = [AskRow("default.app", "uid-p", amounts, tags={**known.tags, **tags})]
    else:
        state.allocations = [AllocationRow("u-p", "default.app", "uid-p", "n1", tags=tags)]
    it.resume(state)
    return it


def test_pod_whose_ask_was_refused_before_a_restart_is_asked_for_when_there_is_room() -> None:
    it = resumed(ask="uid-p/7")
    assert classes(it) == []
    it.questions.sweep()
    assert classes(it) == ["uid-p/8"]


def test_pod_allocated_before_a_restart_comes_back_in_a_class_of_its_own() -> None:
    it = resumed(allocation="uid-p/7")
    it.take()
    it.binding_failed("uid-p", "n1", "no")
    assert classes(it) == ["uid-p/8"]


def test_next_class_is_after_that_of_an_ask_on_its_way_at_a_restart() -> None:
    it = resumed(ask="uid-p/7")
    accepted(it, "p", "uid-p/8", "n1")
    it.questions.sweep()
    assert classes(it) == ["uid-p/9"]
