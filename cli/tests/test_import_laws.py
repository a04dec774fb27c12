"""Laws of translations: a draft becomes valid, whatever it says; what is guaranteed is neither more nor less than
before; a valid text stays what it is; a damaged file is refused or translated, never a traceback."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cli.tests.test_import import CASES, files, queues
from remuda.drafts import tree
from remuda.drafts.notes import Notes
from remuda.drafts.settle import settle
from remuda.drafts.sources import File, NotReadable, yaml
from remuda.drafts.translate import translate
from remuda_config import load
from remuda_proto.remuda.v1 import config_pb2

Object = dict[str, Any]

RESOURCES = ("vcore", "memory", "gpu")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 5_000), max_size=3)
COUNTS = st.integers(0, 4)
NAMES = st.sampled_from(["a", "B", "b", "c.d", "on", "ä", "x" * 70, "@recovery@", "7"])
LIMITS = st.lists(
    st.builds(
        tree.limit,
        users=st.lists(st.sampled_from(["ann", "ben", "*", "b d"]), max_size=2),
        maximum=AMOUNTS,
        applications=COUNTS,
    ),
    max_size=2,
)


def _queue(below: st.SearchStrategy[list[tree.Queue]]) -> st.SearchStrategy[tree.Queue]:
    return st.builds(
        tree.Queue, NAMES, guaranteed=AMOUNTS, maximum=AMOUNTS, maxapplications=COUNTS, limits=LIMITS, queues=below,
        submitacl=st.sampled_from(["*", "", "ann", "ann, ben ops", "*,ann", "a b c", "ü"]),
        properties=st.dictionaries(
            st.sampled_from(["priority.offset", "other"]), st.sampled_from(["1", "-", ""]), max_size=2
        ),
    )  # fmt: skip


TREES = st.recursive(
    st.lists(_queue(st.just([])), max_size=3), lambda below: st.lists(_queue(below), max_size=3), max_leaves=4
)


def paths(queue: config_pb2.QueueConfig) -> Iterator[config_pb2.QueueConfig]:
    yield queue
    for child in queue.queues:
        yield from paths(child)


@given(TREES)
def test_any_draft_can_be_settled(below: list[tree.Queue]) -> None:
    draft = tree.document(below)
    before = tree.text_of(draft)
    notes = Notes()
    settle(draft, notes)
    text = tree.text_of(draft)
    configuration = load(text)
    assert (text == before) == (not len(notes))
    assert len(list(paths(configuration.partitions[0].root))) == before.count("- name:") - 1  # that of the partition


@given(TREES)
def test_a_text_that_is_valid_stays_what_it_is(below: list[tree.Queue]) -> None:
    draft = tree.document(below)
    settle(draft, Notes())
    text = tree.text_of(draft)
    made = translate([File("queues.yaml", text)], None)
    assert not len(made.notes)
    assert made.text.endswith(text)


@st.composite
def cluster_queues(draw: st.DrawFn) -> list[Object]:
    """Objects of Kueue: a tree of cohorts, and ClusterQueues in them or without one."""
    quota = st.integers(0, 100)
    limit = st.none() | st.integers(0, 60)
    cohorts = draw(st.integers(0, 4))
    objects: list[Object] = []

    def groups(least: int) -> list[Object]:
        names = draw(st.lists(st.sampled_from(["cpu", "memory", "example.com/x"]), min_size=least, unique=True))
        resources = []
        for name in names:
            resource = {"name": name, "nominalQuota": draw(quota)}
            for key in ("borrowingLimit", "lendingLimit"):
                if (bound := draw(limit)) is not None:
                    resource[key] = bound
            resources.append(resource)
        return [{"coveredResources": names, "flavors": [{"name": "f", "resources": resources}]}]

    for number in range(cohorts):
        parent = draw(st.none() | st.integers(0, cohorts - 1))
        spec: Object = {"resourceGroups": groups(0)} if draw(st.booleans()) else {}
        objects.append(
            _object("Cohort", f"c{number}", {**spec, **({} if parent is None else {"parentName": f"c{parent}"})})
        )
    for number in range(draw(st.integers(1, 5))):
        cohort = draw(st.none() | st.integers(0, 4))
        spec = {"resourceGroups": groups(1), "namespaceSelector": {}}
        objects.append(
            _object("ClusterQueue", f"q{number}", {**spec, **({} if cohort is None else {"cohortName": f"c{cohort}"})})
        )
    return objects


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _dump(objects: list[Object]) -> str:
    out = io.StringIO()
    yaml().dump({"kind": "List", "items": objects}, out)
    return out.getvalue()


@given(cluster_queues())
def test_nominal_quotas_are_what_is_guaranteed(objects: list[Object]) -> None:
    """Each ClusterQueue has its nominal quota; what it may have lies between that and all quotas there are. The rules
    of queues.yaml change nothing: no amount has to be lowered."""
    made = translate([File("x", _dump(objects))], None)
    assert not [note for note in made.notes if "remuda refuses it" in note.why]
    found = queues(load(made.text))
    everything: dict[str, int] = {}
    for one in objects:
        for name, amount in _nominal(one).items():
            everything[name] = everything.get(name, 0) + amount
    for one in objects:
        if one["kind"] != "ClusterQueue":
            continue
        [path] = [path for path in found if path.endswith(f".{one['metadata']['name']}")]
        guaranteed = {name: quantity.value for name, quantity in found[path].guaranteed.resources.items()}
        assert guaranteed == {name: amount for name, amount in _nominal(one).items() if amount}
        for name, amount in _nominal(one).items():
            most = min(_maxima(found, path, name))
            assert amount <= most <= everything[name]


def _nominal(one: Object) -> dict[str, int]:
    amounts = {}
    for group in one["spec"].get("resourceGroups", []):
        for resource in group["flavors"][0]["resources"]:
            name = {"cpu": "vcore"}.get(resource["name"], resource["name"])
            amounts[name] = resource["nominalQuota"] * (1000 if name == "vcore" else 1)
    return amounts


def _maxima(found: dict[str, config_pb2.QueueConfig], path: str, name: str) -> Iterator[int]:
    while path != "root":
        if name in found[path].max.resources:
            yield found[path].max.resources[name].value
        path = path.rpartition(".")[0]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), min_size=1), st.integers(1, 10**6))
def test_shares_of_accounts_are_in_proportion(weights: dict[str, int], cores: int) -> None:
    """Accounts share what there is, up to rounding, and never more than that."""
    lines = [
        "Cluster - 'c'",
        "Parent - 'root'",
        *(f"Account - '{name}':Fairshare={weight}" for name, weight in weights.items()),
    ]
    made = translate([File("dump", "\n".join(lines))], None, {"vcore": cores})
    found = queues(load(made.text))
    guaranteed = {name: found[f"root.{name}"].guaranteed.resources["vcore"].value for name in weights}
    whole = sum(weights.values())
    assert sum(guaranteed.values()) <= cores
    for name, weight in weights.items():
        assert 0 <= cores * weight / whole - guaranteed[name] < 1 if whole else guaranteed[name] == 0


WORDS = st.sampled_from(["", "[]", "{}", ": ", "- ", "'", "null", "-1", "\x07", "a.b", "*", ",", "10E", "~: ~"])


@given(st.sampled_from(CASES), st.data())
def test_a_damaged_file_is_refused_or_translated(name: str, data: st.DataObject) -> None:
    inputs = files(name)
    place = data.draw(st.integers(0, len(inputs) - 1))
    lines = inputs[place].text.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        line = data.draw(st.integers(0, len(lines) - 1))
        start = data.draw(st.integers(0, len(lines[line])))
        end = start + data.draw(st.integers(0, 8))
        lines[line] = lines[line][:start] + data.draw(WORDS) + lines[line][end:]
    inputs[place] = File(inputs[place].name, "\n".join(lines))
    try:
        text = translate(inputs, None).text
    except NotReadable:
        return
    load(text)
