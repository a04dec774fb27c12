"""Late claims of a pod, planned over all volumes together, against an oracle that tries all ways to give each claim a
volume. And the indexes that find volumes, against a look at all of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.kubernetes.tests.late_claims import (
    LATE,
    NO_PROVISIONER,
    allocated,
    claim,
    feasible,
    given_to,
    near,
    volume,
    with_claims,
)
from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_plugin import DEFAULT, plugin
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import CsiDriver, StorageCapacity, StorageClass, Volume
from remuda_kubernetes.predicates.volumes import Plan, Storage
from remuda_kubernetes.shim.effects import BindVolumes
from remuda_kubernetes.shim.shim import Shim

DRIVER = "disk.example"
SSD = {"selector": {"matchLabels": {"kind": "ssd"}}}


def storage_class(name: str, provisioner: str) -> StorageClass:
    made = {"metadata": {"name": name, "uid": name}, "provisioner": provisioner, "volumeBindingMode": LATE}
    return msgspec.convert(made, StorageClass)


def capacity(name: str, amount: str | None, **of: Any) -> StorageCapacity:
    made = {"metadata": {"name": name, "namespace": "remuda", "uid": name}, "storageClassName": "made",
            "nodeTopology": {"matchLabels": {}}, "capacity": amount, **of}  # fmt: skip
    return msgspec.convert(made, StorageCapacity)


def add_driver(to: Shim) -> None:
    driver = {"metadata": {"name": DRIVER, "uid": DRIVER}, "spec": {"storageCapacity": True}}
    to.volumes.driver_changed(msgspec.convert(driver, CsiDriver))


def with_classes(of: Shim) -> Shim:
    of.volumes.class_changed(storage_class("local", NO_PROVISIONER))
    of.volumes.class_changed(storage_class("made", DRIVER))
    return of


def asking(of: Shim, *claims: dict[str, Any], volumes: tuple[Volume, ...], scheduler: str = "remuda") -> Shim:
    """A pod p with the claims c0, c1 …"""
    for one in volumes:
        of.volumes.volume_changed(one)
    for number, wanted in enumerate(claims):
        of.volumes.claim_changed(claim(name=f"c{number}", **wanted))
    names = [f"c{number}" for number in range(len(claims))]
    of.pod_changed(pod("p", app="app", scheduler=scheduler, **with_claims(*names)))
    of.take()
    return of


def local(name: str, size: str = "1Gi", kind: str = "", **of: Any) -> Volume:
    return volume(name, size, {"kind": kind} if kind else None, storageClassName="local", **of)


# Golden scenarios


def test_volume_that_one_claim_needs_is_left_to_it() -> None:
    """The claim that comes first would take the smallest volume, which is the only one for the other."""
    it = asking(
        with_classes(shim("n1", "n2")),
        {"of": "local"},
        {"of": "local", "size": "2Gi", **SSD},
        volumes=(local("ssd", "2Gi", "ssd", **near("n1")), local("disk", "3Gi", **near("n1"))),
    )
    assert feasible(it) == {"n1"}
    (call,) = allocated(it, "n1")
    assert isinstance(call, BindVolumes)
    assert {one.metadata.name: of.metadata.name for one, of in call.reserved} == {"ssd": "c1", "disk": "c0"}


def test_default_scheduler_takes_one_claim_after_the_other() -> None:
    """A node where it would find no volumes is not approved for its pods."""
    it = asking(
        with_classes(plugin()),
        {"of": "local"},
        {"of": "local", "size": "2Gi", **SSD},
        volumes=(local("ssd", "2Gi", "ssd", **near("n1")), local("disk", "3Gi", **near("n1"))),
        scheduler=DEFAULT,
    )
    assert feasible(it) == set()


def test_one_volume_is_for_one_claim() -> None:
    it = asking(
        with_classes(shim("n1", "n2")),
        {"of": "local"},
        {"of": "local"},
        volumes=(local("v1", **near("n1")), local("v2", **near("n2"))),
    )
    assert feasible(it) == set()
    it.volumes.volume_changed(local("v3", **near("n2")))
    assert feasible(it) == {"n2"}


def test_late_claim_stays_with_the_bound_one() -> None:
    it = asking(
        with_classes(shim("n1", "n2")),
        {"of": "local", "volume": "bound"},
        {"of": "local"},
        volumes=(local("bound", **near("n2"), **given_to("c0")), local("v1", **near("n1"))),
    )
    assert feasible(it) == set()
    it.volumes.volume_changed(local("v2", **near("n2")))
    assert feasible(it) == {"n2"}


def test_volumes_that_are_made_need_room_together() -> None:
    it = with_classes(shim("n1", "n2"))
    add_driver(it)
    it.volumes.capacity_changed(capacity("all", "5Gi"))
    asking(it, {"of": "made", "size": "3Gi"}, {"of": "made", "size": "3Gi"}, volumes=())
    assert feasible(it) == set()
    it.volumes.capacity_changed(capacity("more", "1Gi"))
    assert feasible(it) == {"n1", "n2"}


def test_volume_that_is_there_leaves_room_for_what_must_be_made() -> None:
    """The small claim would take the volume, and there is no room for the large one."""
    it = with_classes(shim("n1", "n2"))
    add_driver(it)
    it.volumes.capacity_changed(capacity("all", "2Gi"))
    there = volume("there", "3Gi", storageClassName="made")
    asking(it, {"of": "made", "size": "2Gi"}, {"of": "made", "size": "3Gi"}, volumes=(there,))
    assert feasible(it) == {"n1", "n2"}
    (call,) = allocated(it, "n1")
    assert isinstance(call, BindVolumes)
    assert [(one.metadata.name, of.metadata.name) for one, of in call.reserved] == [("there", "c1")]
    assert [one.metadata.name for one in call.selected] == ["c0"]


def test_volumes_that_are_being_made_count() -> None:
    """Until the claim is bound, or given up: then the driver says how much is left."""
    it = with_classes(shim("n1", "n2"))
    add_driver(it)
    it.volumes.capacity_changed(capacity("all", "5Gi"))
    asking(it, {"of": "made", "size": "3Gi"}, volumes=())
    allocated(it, "n1")
    it.volumes.claim_changed(claim(name="other", of="made", size="3Gi"))
    it.pod_changed(pod("q", app="app", **with_claims("other")))
    assert feasible(it, "q") == set()
    it.volumes.claim_changed(claim(name="c0", of="made", size="3Gi", selected="n1"))
    assert feasible(it, "q") == set()
    it.volumes.claim_changed(claim("v", name="c0", of="made", size="3Gi", selected="n1"))
    assert feasible(it, "q") == {"n1", "n2"}
    assert not it.cache.storage._promised and not it.cache.storage._promises


# The law

OF_CLAIM = st.fixed_dictionaries(
    {
        "of": st.sampled_from(["local", "local", "made"]),
        "size": st.integers(1, 4),
        "kind": st.sampled_from(["", "", "ssd", "disk"]),
        "mode": st.sampled_from(["Filesystem"] * 4 + ["Block"]),
    }
)
OF_VOLUME = st.fixed_dictionaries(
    {
        "of": st.sampled_from(["local", "local", "made"]),
        "size": st.integers(1, 4),
        "kind": st.sampled_from(["ssd", "disk", ""]),
        "mode": st.sampled_from(["Filesystem"] * 4 + ["Block"]),
        "near": st.sampled_from([(), ("n1",), ("n1",), ("n2",), ("n1", "n2")]),
        "for": st.sampled_from([None] * 6 + ["c0", "another"]),
    }
)
ROOM = st.none() | st.tuples(st.integers(0, 9), st.none() | st.integers(0, 4))


def ways(
    claims: Sequence[Mapping[str, Any]], volumes: Sequence[Mapping[str, Any]], where: str
) -> Iterator[list[int | None]]:
    """The volume of each claim, by number; None: one is made."""
    for way in itertools.product([None, *range(len(volumes))], repeat=len(claims)):
        given_away = [number for number in way if number is not None]
        if len(set(given_away)) == len(given_away) and all(
            number is None or suits(f"c{index}", claims[index], volumes[number], where)
            for index, number in enumerate(way)
        ):
            yield list(way)


def suits(name: str, one: Mapping[str, Any], there: Mapping[str, Any], where: str) -> bool:
    is_its = there["for"] == name
    return (
        there["for"] in (None, name)
        and (one["of"], one["mode"]) == (there["of"], there["mode"])
        and there["size"] >= one["size"]
        and (is_its or one["kind"] in ("", there["kind"]))
        and (not there["near"] or where in there["near"])
    )


def is_possible(
    claims: Sequence[Mapping[str, Any]],
    volumes: Sequence[Mapping[str, Any]],
    room: tuple[int, int | None] | None,
    where: str,
) -> bool:
    """A claim that has a volume reserved gets no other."""
    kept = {
        index: number
        for index, one in enumerate(claims)
        for number, there in enumerate(volumes)
        if there["for"] == f"c{index}" and suits(f"c{index}", one, {**there, "near": ()}, where)
    }
    for way in ways(claims, volumes, where):
        if any(way[index] not in (None, number) for index, number in kept.items()):
            continue
        made = [one["size"] for one, number in zip(claims, way, strict=True) if number is None]
        kinds = {one["of"] for one, number in zip(claims, way, strict=True) if number is None}
        if "local" in kinds:
            continue
        if room is None or not made or (sum(made) <= room[0] and max(made) <= (room[1] or room[0])):
            return True
    return False


@given(
    st.lists(OF_CLAIM, min_size=1, max_size=3),
    st.lists(OF_VOLUME, max_size=4).filter(lambda some: [one["for"] for one in some].count("c0") < 2),
    ROOM,
)
@settings(max_examples=400, deadline=None)
def test_node_suits_a_pod_if_its_claims_can_have_volumes_in_any_way(
    claims: list[dict[str, Any]], volumes: list[dict[str, Any]], room: tuple[int, int | None] | None
) -> None:
    it = with_classes(shim("n1", "n2"))
    if room is not None:
        add_driver(it)
        most = {"maximumVolumeSize": f"{room[1]}Gi"} if room[1] else {}
        it.volumes.capacity_changed(capacity("all", f"{room[0]}Gi", **most))
    there = tuple(
        volume(
            f"v{number}",
            f"{one['size']}Gi",
            {"kind": one["kind"]},
            storageClassName=one["of"],
            volumeMode=one["mode"],
            **(near(*one["near"]) if one["near"] else {}),
            **(given_to(one["for"]) if one["for"] else {}),
        )
        for number, one in enumerate(volumes)
    )
    wanted = [
        {"of": one["of"], "size": f"{one['size']}Gi", "volumeMode": one["mode"]}
        | ({"selector": {"matchLabels": {"kind": one["kind"]}}} if one["kind"] else {})
        for one in claims
    ]
    asking(it, *wanted, volumes=there)
    assert feasible(it) == {where for where in ("n1", "n2") if is_possible(claims, volumes, room, where)}
    for where in feasible(it):
        storage, on = it.cache.storage, it.cache.nodes[where].node
        plan, first = (storage.plan(it.cache.pods["uid-p"].pod, on, jointly=way) for way in (True, False))
        assert_valid(plan, claims, volumes, where)
        if not storage._plan_refusal(first, on):
            assert plan == first  # as the default scheduler does, where that is enough


def assert_valid(plan: Plan, claims: list[Any], volumes: list[Any], where: str) -> None:
    names = [of.metadata.name for _, of in plan.given] + [of.metadata.name for of in plan.made]
    assert sorted(names) == [f"c{number}" for number in range(len(claims))]
    assert len({one.metadata.name for one, _ in plan.given}) == len(plan.given)
    for one, of in plan.given:
        index, number = int(of.metadata.name[1:]), int(one.metadata.name[1:])
        assert suits(of.metadata.name, claims[index], volumes[number], where)


# The indexes


@pytest.mark.parametrize("seed", range(5))
def test_volumes_are_found_as_by_a_look_at_all_of_them(seed: int) -> None:
    """After any changes. The smallest one comes first."""
    chance, it = random.Random(seed), Storage()
    it.classes["made"] = storage_class("made", DRIVER)
    nodes = [node(f"n{number}", zone="ab"[number % 2]) for number in range(4)]
    wanted = claim(of="made", size="2Gi")
    for _ in range(300):
        name = f"v{chance.randrange(12)}"
        places = chance.choice([{}, near("n1"), near("n2", "n3"), in_zone("a"), in_zone("b", "c")])
        taken = chance.choice([{}, {}, {}, given_to("c"), given_to("another")])
        changed = volume(
            name, f"{chance.randrange(1, 5)}Gi", storageClassName=chance.choice(["made", "other"]), **places, **taken,
            phase=chance.choice(["Available", "Available", "Released"]),
        )  # fmt: skip
        chance.choice([it.put_volume, it.put_volume, lambda one: it.remove_volume(one.metadata.name)])(changed)
        for on in nodes:
            labels = on.metadata.labels or {}
            assert [one.metadata.name for one in it._volumes_for(wanted, on)] == found_in_all(it, labels)
    for name in list(it.volumes):
        it.remove_volume(name)
    assert not it._free and not it._named


def in_zone(*zones: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [one]}]} for one in zones]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def found_in_all(storage: Storage, labels: Mapping[str, str]) -> list[str]:
    """For a claim c of 2 GiB."""
    some = [one for one in storage.volumes.values() if one.storage_class == "made" and size(one) >= 2 * 1024**3]
    names = [one.metadata.name for one in some if one.spec.claim_ref is not None and one.spec.claim_ref.name == "c"]
    free = [one for one in some if one.spec.claim_ref is None and one.status.phase == "Available"]
    if names:
        first = next(name for name in storage._named["default", "c"] if name in names)  # the one that came first
        return [first] if is_near(storage.volumes[first], labels) else []
    near_ones = [one for one in free if is_near(one, labels)]
    return [one.metadata.name for one in sorted(near_ones, key=lambda one: (size(one), one.metadata.name))]


def size(of: Volume) -> Decimal:
    return Decimal((of.spec.capacity or {})["storage"].removesuffix("Gi")) * 1024**3


def is_near(of: Volume, labels: Mapping[str, str]) -> bool:
    affinity = of.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(
        all(labels.get(one.key) in one.values for one in term.match_expressions)
        for term in affinity.required.node_selector_terms
    )


def test_choice_looks_at_few_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: each of 1,000 nodes has three, and 1,000 are in another zone."""
    it = Storage()
    it.classes["made"] = storage_class("made", DRIVER)
    for number in range(1000):
        for size_gib in (1, 2, 3):
            name = f"v{number}-{size_gib}"
            it.put_volume(volume(name, f"{size_gib}Gi", storageClassName="made", **near(f"n{number}")))
        it.put_volume(volume(f"z{number}", "2Gi", storageClassName="made", **in_zone("far")))
        it.put_capacity(capacity(f"k{number}", "9Gi", nodeTopology={"matchLabels": {"host": f"n{number}"}}))
    looked: list[str] = []

    class Counted(dict[str, Volume]):
        def __getitem__(self, name: str) -> Volume:
            looked.append(name)
            return super().__getitem__(name)

    it.volumes = Counted(it.volumes)
    on = node("n500", zone="near", host="n500")
    assert [one.metadata.name for one in it._volumes_for(claim(of="made", size="2Gi"), on)] == ["v500-2", "v500-3"]
    assert looked == ["v500-2", "v500-3"]
    assert [key for key, _ in it._rooms_at("made", on)] == [("remuda", "k500")]
