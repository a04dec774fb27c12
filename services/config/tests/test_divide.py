"""A text of queues.yaml is divided by partitions, and nothing else about it changes."""

from __future__ import annotations

import pytest

from remuda_config import Invalid, NotDivisible, divide, load

TEXT = """\
# of all
partitions:
  # the first
  - name: Default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: a, resources: {max: {vcore: 010}}}]
  # for the large ones
  # of the lab
  - name: gpu
    nodesortpolicy: {type: binpacking}
    queues: [{name: a}, {name: b}]

  - queues: [{name: c}]
    name: batch
partitionhierarchy: same
"""


def test_each_partition_goes_where_it_belongs_with_its_comment() -> None:
    parts = divide(TEXT, {"one": ["default", "batch"], "two": ["gpu"]})
    assert parts["two"] == (
        "# of all\npartitions:\n  # for the large ones\n  # of the lab\n  - name: gpu\n"
        "    nodesortpolicy: {type: binpacking}\n    queues: [{name: a}, {name: b}]\n\npartitionhierarchy: same\n"
    )
    whole = {partition.name: partition for partition in load(TEXT).partitions}
    for names, part in ((["default", "batch"], parts["one"]), (["gpu"], parts["two"])):
        assert list(load(part).partitions) == [whole[name] for name in names]


def test_a_list_without_indentation_and_lines_that_end_in_cr() -> None:
    text = "partitions:\r\n- name: a\r\n  queues: []\r\n- name: b\r\n  queues: []\r\n"
    parts = divide(text, {"one": ["a"], "two": ["b"]})
    assert parts == {
        "one": "partitions:\r\n- name: a\r\n  queues: []\r\n",
        "two": "partitions:\r\n- name: b\r\n  queues: []\r\n",
    }


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"one": ["default"], "two": ["gpu"]}, "partition 'batch' is in none, expected in exactly one"),
        ({"one": ["default", "gpu", "batch"], "two": ["gpu"]}, "partition 'gpu' is in one and in two"),
        ({"one": ["default", "gpu", "batch"], "two": []}, "two has no partition"),
        ({"one": ["default", "gpu", "batch"], "two": ["x"]}, "two: partition 'x' is not in the configuration"),
    ],
)
def test_each_partition_is_in_one_group(groups: dict[str, list[str]], said: str) -> None:
    with pytest.raises(NotDivisible, match=said):
        divide(TEXT, groups)


@pytest.mark.parametrize(
    "text",
    [
        "partitions: [{name: a, queues: []}, {name: b, queues: []}]",
        "partitions: [{name: a, queues: []},\n  {name: b, queues: []}]",
        "partitions:\n  - name: a\n    queues: &all [{name: x}]\n  - name: b\n    queues: *all\n",
    ],
)
def test_what_cannot_be_cut_by_lines_is_refused(text: str) -> None:
    load(text)
    with pytest.raises(NotDivisible):
        divide(text, {"one": ["a"], "two": ["b"]})


def test_what_is_not_valid_is_refused() -> None:
    with pytest.raises(Invalid):
        divide("partitions: [{name: a, odd: 1}]", {"one": ["a"]})
