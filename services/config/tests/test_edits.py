"""Edits of single keys: what changes, and that nothing else does."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remuda_config
from remuda_config.edits import NotEditable, edit
from remuda_proto.remuda.v1 import config_pb2

BLOCK = """\
# queues of the cluster
partitions:
  - name: default   # the only one
    queues:
      - name: root
        submitacl: '*'
        queues:
          # production
          - name: prod
            resources:
              max: {vcore: 128, memory: 512Gi}  # of all nodes
            queues:
              - name: batch
                properties:
                  application.sort.policy: fair

          # people
          - adminacl: "ann"
            name: people   # one queue each
            parent: true

# the end
"""
FLOW = "partitions: [{name: default, queues: [{name: a, maxapplications: 1}, {name: b, parent: true}]}]\n"


def one(do: str, queue: str, key: str = "", value: object = "", **more: object) -> dict[str, object]:
    return {"do": do, "queue": queue, "key": key, "value": value, **more}


def changed(text: str, *edits: dict[str, object]) -> list[str]:
    """The lines that differ, with their sign. The result is valid."""
    after = edit(text, edits)
    remuda_config.load(after)
    lines = difflib.unified_diff(text.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@"]


def test_no_edit_is_no_change():
    assert edit(BLOCK, []) == BLOCK
    assert edit("\ufeff" + FLOW, []) == "\ufeff" + FLOW


def test_a_value_is_replaced_where_it_stands():
    assert changed(BLOCK, one("set", "root.prod", "max.vcore", "64")) == [
        "-              max: {vcore: 128, memory: 512Gi}  # of all nodes",
        "+              max: {vcore: 64, memory: 512Gi}  # of all nodes",
    ]
    assert changed(BLOCK, one("set", "ROOT.People", "adminacl", "ann,bob ops")) == [
        '-          - adminacl: "ann"',
        "+          - adminacl: 'ann,bob ops'",
    ]


def test_a_key_is_added_behind_the_last_one():
    assert changed(BLOCK, one("set", "root.people", "max.nvidia.com/gpu", 4)) == [
        "+            resources:",
        "+              max:",
        "+                nvidia.com/gpu: 4",
    ]
    assert changed(BLOCK, one("set", "root.prod", "max.pods", "10")) == [
        "-              max: {vcore: 128, memory: 512Gi}  # of all nodes",
        "+              max: {vcore: 128, memory: 512Gi, pods: 10}  # of all nodes",
    ]
    assert changed(BLOCK, one("set", "root", "maxapplications", "9"), one("unset", "root", "maxapplications")) == []
    after = edit(BLOCK, [one("set", "root.prod.batch", "properties.priority.offset", "5")])
    assert "                  priority.offset: '5'\n\n          # people\n" in after


def test_a_key_is_removed_with_what_it_leaves_empty():
    assert changed(BLOCK, one("unset", "root.prod.batch", "properties.application.sort.policy")) == [
        "-                properties:",
        "-                  application.sort.policy: fair",
    ]
    assert changed(BLOCK, one("unset", "root.prod", "max.memory")) == [
        "-              max: {vcore: 128, memory: 512Gi}  # of all nodes",
        "+              max: {vcore: 128}  # of all nodes",
    ]
    assert changed(BLOCK, one("unset", "root.people", "adminacl")) == [
        '-          - adminacl: "ann"',
        "-            name: people   # one queue each",
        "+          - name: people   # one queue each",
    ]


def test_queues_come_and_go():
    assert changed(BLOCK, one("add", "root.people.x", values={"submitacl": "*", "max.vcore": "1"})) == [
        "+            queues:",
        "+              - name: x",
        "+                submitacl: '*'",
        "+                resources:",
        "+                  max:",
        "+                    vcore: 1",
    ]
    assert changed(BLOCK, one("add", "root.prod.x"))[0] == "+              - name: x"
    after = edit(BLOCK, [one("remove", "root.people")])
    assert "people" not in after
    assert after.endswith("fair\n\n\n# the end\n")
    assert "queues:" not in edit(BLOCK, [one("remove", "root.prod.batch")]).split("prod")[2]


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("comment", ["# blue - green", "# -", ""])
def test_a_queue_is_removed_with_its_dash_whatever_comments_contain(place, comment):
    """A comment may stand between the dash and the first key."""
    queues = {
        name: f"""\
          -
            {comment}

            name: {name}
            {comment}
            parent: true
"""
        for name in ("first", "middle", "last")
    }
    text = "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n" + "".join(
        queues.values()
    )
    assert edit(text, [one("remove", f"root.{place}")]) == text.replace(queues[place], "")


def test_a_text_in_flow_style_and_one_with_other_line_breaks():
    edits = [one("set", "root.a", "max.vcore", "2"), one("add", "root.b.c"), one("unset", "root.a", "maxapplications")]
    assert edit(FLOW, edits) == (
        "partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: 2}}}, "
        "{name: b, parent: true, queues: [{name: c}]}]}]\n"
    )
    assert edit(FLOW, [one("remove", "root.a")]) == (
        "partitions: [{name: default, queues: [{name: b, parent: true}]}]\n"
    )
    windows = BLOCK.replace("\n", "\r\n")
    after = edit(windows, [one("set", "root.people", "maxapplications", "3")])
    assert after.count("\n") == after.count("\r\n") == windows.count("\n") + 1


def test_a_text_without_a_line_break_at_its_end():
    text = "partitions:\n- name: default\n  queues:\n  - name: a"
    assert edit(text, [one("set", "root.a", "maxapplications", "1")]) == f"{text}\n    maxapplications: 1\n"
    assert edit(text, [one("add", "root.b")]) == f"{text}\n  - name: b\n"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (one("set", "root.none", "max.vcore", "1"), "queue 'root.none' is not in the configuration"),
        (one("set", "prod", "max.vcore", "1"), "expected a path that begins with root"),
        (one("set", "", "max.vcore", "1"), "expected a path such as root.prod"),
        (one("set", "root.prod", "colour", "1"), "key 'colour': expected one of"),
        (one("set", "root.prod", "max.", "1"), "key 'max.': expected one of"),
        (one("set", "root.prod", "max.vcore", ["1"]), "expected a text or a number"),
        (one("set", "root.prod", "max.vcore", "1\n"), "cannot be printed"),
        (one("set", "root.prod", "max.vcore", "1", partition="gpu"), "partition 'gpu' is not in"),
        (one("unset", "root.prod", "max.pods"), "'max.pods' is not set in 'root.prod'"),
        (one("add", "root.prod"), "queue 'root.prod' is in the configuration"),
        (one("add", "root.people.x", values=[1]), "expected a mapping"),
        (one("remove", "root"), "the root queue cannot be removed"),
        (one("remove", "root.none"), "is not in the configuration"),
        (one("move", "root.prod"), "expected set, unset, add or remove"),
    ],
)
def test_wrong_edits(wrong, message):
    with pytest.raises(NotEditable, match=message):
        edit(BLOCK, [wrong])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partitions: [{queues: [&a {name: a}, *a]}]", "aliases"),
        ("partitions: [{queues: [{name: a, <<: {parent: true}}]}]", "aliases"),
        ("partitions: [", "not YAML"),
        ("[]", "partition 'default' is not in"),
        ("partitions: [{queues: [x]}]", "not a mapping"),
    ],
)
def test_texts_that_cannot_be_edited(text, message):
    with pytest.raises(NotEditable, match=message):
        edit(text, [one("set", "root.a", "max.vcore", "1")])


AMOUNTS = st.sampled_from(["0", "7", "500m"])
LEAVES = ("root.prod.batch", "root.people", "root.a", "root.b")


@settings(deadline=None)
@given(
    st.sampled_from([BLOCK, FLOW, BLOCK.replace("\n", "\r\n")]),
    st.lists(st.tuples(st.sampled_from(LEAVES), st.sampled_from(["vcore", "gpu", "x.y/z"]), AMOUNTS), max_size=4),
)
def test_only_the_amounts_that_are_set_differ(text, wanted):
    edits = [
        one("set", queue, f"guaranteed.{name}", "1" if name != "vcore" else amount)
        for queue, name, amount in wanted
        if (queue in ("root.a", "root.b")) == (text == FLOW)
    ]
    after = remuda_config.load(edit(text, edits))
    expected = remuda_config.load(text)
    for each in edits:
        amounts = queue_at(expected, str(each["queue"])).guaranteed.resources
        name = str(each["key"]).removeprefix("guaranteed.")
        value = str(each["value"])
        amounts[name].value = AMOUNT_OF[value] if name == "vcore" else int(value)
    expected.checksum = after.checksum
    assert after == expected


AMOUNT_OF = {"0": 0, "7": 7_000, "500m": 500}


def queue_at(configuration: config_pb2.Configuration, path: str) -> config_pb2.QueueConfig:
    queue = configuration.partitions[0].root
    for name in path.split(".")[1:]:
        queue = next(child for child in queue.queues if child.name == name)
    return queue
