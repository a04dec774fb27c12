"""Form: keys, kinds of values, lines, and texts that are no configuration at all."""

from __future__ import annotations

import time

import pytest

import remuda_config
from remuda_config import limits
from services.config.tests.texts import partition, problems, queues


def seconds(text: str) -> float:
    began = time.process_time()
    problems(text)
    return time.process_time() - began


def test_so_many_partitions_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch):
    text = "partitions:\n" + "".join(f"  - name: p{n}\n    queues: [{{name: root}}]\n" for n in range(20_000))
    [(_, line, message)] = problems(text)
    assert (line, message) == (202, "more than 100 partitions")
    refused_s = min(seconds(text) for _ in range(3))
    monkeypatch.setattr(limits, "MAX_PARTITIONS", 20_000)
    assert refused_s < seconds(text) * 0.7


def test_a_text_is_read_no_further_than_its_values_may_go():
    [(_, _, message)] = problems("partitions: [" + "a," * 1_500_000 + "]")
    assert message == "more than 100 partitions"


def test_wrong_values_cost_no_more_when_there_are_many():
    def text(count: int) -> str:
        queues = "".join(f"      - {{name: q, maxapplications: x{n}}}\n" for n in range(count))
        return f"partitions:\n  - name: default\n    queues:\n{queues}"

    assert seconds(text(4_000)) < 10 * seconds(text(1_000)) + 1


def test_a_long_key_is_a_short_problem():
    [(path, _, message)] = problems(
        f"? {'k' * 1_000_000}\n: 1\npartitions: [{{name: default, queues: [{{name: root}}]}}]"
    )
    assert len(path) < 600 and len(message) < 600


def test_all_problems_at_once_each_with_its_line():
    text = """partitions:
  - name: default
    colour: red
    placementrules:
      - name: fixed
        value: root.nosuch
      - name: user
        parnt: {}
    queues:
      - name: root
        resources: {max: {}}
        queues:
          - name: a b
            maxapplications: "5"
            resources:
              max: {memory: 1x, vcore: 1.5}
              guaranteed: {gpu: }
            properties: {priority.offset: x}
            limits:
              - users: alice
              - {users: [bob]}
          - 5
          - name: c
            name: d
"""
    assert [(path, line) for path, line, _ in problems(text)] == [
        ("partitions[0].colour", 3),
        ("partitions[0].placementrules[1].parnt", 8),
        ("partitions[0].queues[0].resources.max", 11),
        ("[0].name", 13),
        ("[0].maxapplications", 14),
        ("[0].resources.max.memory", 16),
        ("[0].resources.max.vcore", 16),
        ("[0].resources.guaranteed.gpu", 17),
        ('[0].properties["priority.offset"]', 18),
        ("[0].limits[0].users", 20),
        ("[0].limits[1]", 21),
        ("[1]", 22),
        ("[2].name", 23),
    ]


def test_rules_are_judged_by_the_tree_only_when_that_can_be_read():
    text = partition("placementrules: [{name: fixed, value: b}]\nqueues: [{name: root, queues: [{name: a}, 5]}]")
    assert [path for path, _, _ in problems(text)] == ["[1]"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {name: a, maxApplications: 1}", "unknown key 'maxApplications'; did you mean maxapplications?"),
        ("- {name: a, zzz: 1}", "unknown key 'zzz'; known here: name, parent, resources"),
        ("- {name: a, childtemplate: {submitacl: a}}", "unknown key 'submitacl'"),
        ("- {name: a, resources: [m]}", "expected a mapping, found a list"),
        ("- {name: a, resources: {max: 10}}", "expected a mapping, found 10"),
        ("- {name: a, resources: {max: {m: true}}}", "not a quantity"),
        ("- {name: a, queues: b}", "expected a list, found b"),
        ("- {name: a, submitacl: [a, b]}", "expected a text, found a list"),
        ("- {name: a, properties: {a: {b: c}}}", "expected a text, found a mapping"),
        ("- {name: a, parent: 1}", "expected true or false"),
        ("- {name: a, parent: 'true'}", "expected true or false"),
        *[
            (f"- {{name: a, maxapplications: {value}}}", "expected a whole number")
            for value in ["'5'", "many", "-1", "1.5", "010", "18446744073709551616", "true"]
        ],
        ("- {name: !!binary aGk=}", "the tag tag:yaml.org,2002:binary is not used here"),
        ("- {name: a, ? [b] : c}", "is not a word"),
    ],
)
def test_refused(text, message):
    assert [message in what for _, _, what in problems(queues(text))][0]


@pytest.mark.parametrize(
    "text",
    [
        "- {name: 5, parent: yes, maxapplications: 0x10}",
        "- {name: a, resources: , maxapplications: , queues: , limits: }",
        "- {name: a, maxapplications: 18446744073709551615}",
        "- &a {name: a, parent: on}\n- {<<: *a, name: b}",
    ],
)
def test_accepted(text):
    assert problems(queues(text)) == []


def test_merged_keys_do_not_replace_own_ones():
    configuration = remuda_config.load(queues("- &a {name: a, maxapplications: 3}\n- {<<: *a, name: b}"))
    assert [(queue.name, queue.max_applications) for queue in configuration.partitions[0].root.queues] == [
        ("a", 3),
        ("b", 3),
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("hello", 1, "expected a mapping, found hello"),
        ("- a", 1, "expected a mapping, found a list"),
        ("partitions:\n\t- name: a", 2, "not YAML"),
        ("a: 1\nb: *", 2, "not YAML"),
        ("a: 1\nb: \x01", 2, "not YAML"),
        ("a: [*x]", 1, "not YAML"),
        ("a: &a [*a]", 1, "inside of what it is an alias for"),
        ("[" * 3000, 0, "nested too deeply"),
        ("partitions: []", 1, "at least one partition"),
        ("# nothing", 0, "at least one partition"),
        ("null", 1, "at least one partition"),
        ("---\n---\npartitions: 5", 2, "at least one partition"),
        ("partitions: [null]", 1, "at least one partition"),
    ],
)
def test_no_configuration_at_all(text, line, message):
    found = problems(text)
    assert len(found) == 1, found
    assert found[0][1] == line
    assert message in found[0][2]


def test_aliases_cannot_unfold_into_more_than_fits():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8))
    assert ["unfolds into more than" in what for _, _, what in problems(text)] == [True]


def test_only_the_first_document_counts():
    assert problems("partitions: [{queues: [{name: root}]}]\n---\nnonsense: {{{") == []


def test_marks_and_line_ends_of_other_systems():
    assert problems("\ufeff" + queues("- name: a").replace("\n", "\r\n")) == []


def nested(depth: int) -> str:
    text = "{name: q}"
    for _ in range(depth - 1):
        text = f"{{name: q, queues: [{text}]}}"
    return queues(f"- {text}")


def test_queues_are_not_deeper_than_a_message_can_hold():
    configuration = remuda_config.load(nested(64))
    assert type(configuration).FromString(configuration.SerializeToString()) == configuration
    assert ["at most 64 levels" in what for _, _, what in problems(nested(65))] == [True]
