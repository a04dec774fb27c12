"""Each rule with what it refuses and what it lets pass."""

from __future__ import annotations

import hashlib
import json

import pytest

import remuda_config
from services.config.tests.texts import partition, problems, queues

REFUSED = {
    # names
    "blank in name": ("- name: a b", "[0].name", "bad queue name 'a b'"),
    "dot in name": ("- name: a.b", "[0].name", "bad queue name"),
    "newline at the end of a name": ('- name: "a\\n"', "[0].name", "bad queue name"),
    "name too long": (f"- name: {'a' * 65}", "[0].name", "1 to 64"),
    "no name": ("- parent: true", "[0].name", "bad queue name ''"),
    "same name": ("- name: a\n- name: A", "[1].name", "root already has a queue 'a'"),
    # resources
    "guaranteed above max": (
        "- {name: a, resources: {guaranteed: {memory: 11}, max: {memory: 10}}}",
        "[0].resources.guaranteed.memory",
        "11 is above the queue's own max, 10",
    ),
    "max above the parent's": (
        "- {name: p, resources: {max: {vcore: 1}}, queues: [{name: c, resources: {max: {vcore: 1001m}}}]}",
        "[0].queues[0].resources.max.vcore",
        "1001m is above the max of root.p, 1",
    ),
    "max above the grandparent's": (
        "- {name: p, resources: {max: {m: 1}}, queues: [{name: q, queues: [{name: c, resources: {max: {m: 2}}}]}]}",
        "[0].queues[0].queues[0].resources.max.m",
        "max of root.p",
    ),
    "max where the parent's is zero": (
        "- {name: p, resources: {max: {m: 0}}, queues: [{name: c, resources: {max: {m: 2}}}]}",
        "[0].queues[0].resources.max.m",
        "2 is above the max of root.p, 0",
    ),
    "children guaranteed more than the parent": (
        "- {name: p, resources: {guaranteed: {m: 10}}, queues: "
        "[{name: c, resources: {guaranteed: {m: 6}}}, {name: d, resources: {guaranteed: {m: 6}}}]}",
        "[0].resources.guaranteed.m",
        "10 is less than what the queues below it are guaranteed, 12",
    ),
    "grandchildren guaranteed more than max": (
        "- {name: p, resources: {max: {m: 10}}, queues: [{name: q, resources: {guaranteed: {vcore: 1}}, queues: "
        "[{name: c, resources: {guaranteed: {m: 6}}}, {name: d, resources: {guaranteed: {m: 6}}}]}]}",
        "[0].resources.max.m",
        "10 is less than what the queues below it are guaranteed, 12",
    ),
    "resource without a name": ('- {name: a, resources: {max: {"": 1}}}', '[0].resources.max[""]', "needs a name"),
    # applications
    "applications above the parent's": (
        "- {name: p, maxapplications: 3, queues: [{name: c, maxapplications: 4}]}",
        "[0].queues[0].maxapplications",
        "4 is above the 3 of root.p",
    ),
    "applications not set below a parent that sets them": (
        "- {name: p, maxapplications: 3, queues: [{name: c}]}",
        "[0].queues[0].maxapplications",
        "has to be set",
    ),
    # templates
    "template: guaranteed above max": (
        "- {name: a, parent: true, childtemplate: {resources: {guaranteed: {m: 2}, max: {m: 1}}}}",
        "[0].childtemplate.resources.guaranteed.m",
        "above",
    ),
    "template: max above the queue's": (
        "- {name: a, resources: {max: {m: 1}}, childtemplate: {resources: {max: {m: 2}}}}",
        "[0].childtemplate.resources.max.m",
        "2 is above the max of root.a, 1",
    ),
    "template: applications above the queue's": (
        "- {name: a, maxapplications: 1, childtemplate: {maxapplications: 2}}",
        "[0].childtemplate.maxapplications",
        "2 is above the 1 of root.a",
    ),
    "template: property": (
        "- {name: a, childtemplate: {properties: {priority.policy: x}}}",
        '[0].childtemplate.properties["priority.policy"]',
        "'x' is unknown",
    ),
    # access
    "acl: three fields": ('- {name: a, submitacl: "a b c"}', "[0].submitacl", "more than one space"),
    "acl: two spaces": ('- {name: a, adminacl: "a  b"}', "[0].adminacl", "more than one space"),
    "acl: blank after comma": ('- {name: a, submitacl: "a, b"}', "[0].submitacl", "empty user name"),
    "acl: star in a list": ('- {name: a, submitacl: "a,*"}', "[0].submitacl", "has to stand alone"),
    "acl: bad user": ('- {name: a, submitacl: "a!b"}', "[0].submitacl", "bad user name 'a!b'"),
    "acl: bad group": ('- {name: a, submitacl: "a g@x"}', "[0].submitacl", "bad group name 'g@x'"),
    # properties
    "sort priority": ("- {name: a, properties: {application.sort.priority: off}}", None, "enabled, disabled"),
    "priority policy": ("- {name: a, properties: {priority.policy: ''}}", None, "default, fence"),
    "preemption policy": ("- {name: a, properties: {preemption.policy: none}}", None, "default, fence, disabled"),
    "backoff": ("- {name: a, properties: {application.unschedasks.backoff: -1}}", None, "whole number"),
    "backoff's delay": ("- {name: a, properties: {application.unschedasks.backoff.delay: 1}}", None, "duration"),
    "quota delay of 1.8": ("- {name: a, properties: {preemption.quota.delay: 10}}", None, "duration"),
    "offset too large": ("- {name: a, properties: {priority.offset: 2147483648}}", None, "whole number"),
    "offset with a fraction": ("- {name: a, properties: {priority.offset: 1.5}}", None, "whole number"),
    "delay without unit": ("- {name: a, properties: {preemption.delay: 10}}", None, "duration"),
    "half-life of nothing": ("- {name: a, properties: {fair.half-life: 0}}", None, "'0': expected a duration from 1m"),
    "half-life too short": ("- {name: a, properties: {fair.half-life: 59s}}", None, "from 1m to 87840h"),
    "looking no duration ahead": ("- {name: a, properties: {fair.ahead: soon}}", None, "expected a duration"),
    "looking further ahead than a half-life": (
        "- {name: a, properties: {fair.half-life: 1m, fair.ahead: 2m}}",
        '[0].properties["fair.ahead"]',
        "'2m': expected at most fair.half-life, '1m'",
    ),
    "patience without a unit": ("- {name: a, properties: {fair.patience: 48}}", None, "or 0 for never"),
    "weight of nothing": ("- {name: a, properties: {fair.weight: 0.000}}", None, "from 0.001 to 999999.999"),
    "weight too fine": ("- {name: a, properties: {fair.weight: 0.0001}}", None, "at most three decimals"),
    "user without a weight": (
        '- {name: a, properties: {fair.user-weights: "ann=2, bob"}}',
        None,
        "'bob': expected NAME=WEIGHT, or @GROUP=WEIGHT, with weights from 0.001",
    ),
    "weight without a user": ('- {name: a, properties: {fair.user-weights: "=2"}}', None, "'=2': expected NAME=WEIGHT"),
    "no weights of users": ('- {name: a, properties: {fair.user-weights: ""}}', None, "'': expected NAME=WEIGHT"),
    "user of two weights": (
        '- {name: a, properties: {fair.user-weights: "a=2,a=3"}}',
        None,
        "'a=3': expected each name",
    ),
    "guaranteed last": ("- {name: a, properties: {fair.guaranteed: last}}", None, "expected first, plain"),
    "no delay": ("- {name: a, properties: {preemption.delay: 0s}}", None, "duration"),
    "delay below a millisecond": ("- {name: a, properties: {preemption.delay: 999us}}", None, "duration"),
    "property without a name": ('- {name: a, properties: {"": 1}}', None, "needs a name"),
}


@pytest.mark.parametrize(("text", "path", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(text, path, message):
    found = problems(queues(text))
    assert len(found) == 1, found
    assert path is None or found[0][0] == path
    assert message in found[0][2]
    assert found[0][1] >= 5  # the line of the queue, or of something in it


ACCEPTED = {
    "names": f"- name: {'a' * 64}\n- name: 5\n- name: _-",
    "same name elsewhere": "- {name: p, queues: [{name: a}]}\n- name: a",
    "root below root": "- {name: root, resources: {max: {m: 1}}}",
    "guaranteed is max": "- {name: a, resources: {guaranteed: {m: 1}, max: {m: 1}}}",
    "same amount, other unit": "- {name: a, resources: {guaranteed: {vcore: 1000m}, max: {vcore: 1}}}",
    "children's max together above the parent's": (
        "- {name: p, resources: {max: {m: 1}}, queues: [{name: c, resources: {max: {m: 1}}}, "
        "{name: d, resources: {max: {m: 1}}}]}"
    ),
    "sums saturate": (
        "- {name: p, resources: {max: {m: 9223372036854775807}}, queues: "
        "[{name: c, resources: {guaranteed: {m: 9223372036854775807}}}, {name: d, resources: {guaranteed: {m: 1}}}]}"
    ),
    "applications only below": "- {name: p, queues: [{name: c, maxapplications: 4}]}",
    "template without applications": "- {name: p, maxapplications: 3, childtemplate: {properties: {a: b}}}",
    "acls": "- {name: a, submitacl: '*', adminacl: ' g,h'}\n- {name: b, submitacl: 'u$,v@x ', adminacl: ' '}",
    "properties": "- {name: a, properties: {priority.policy: FENCE, priority.offset: -5, preemption.delay: 1m.5s}}",
    "somebody's own property": "- {name: a, properties: {team: }}",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(text):
    assert problems(queues(text)) == []


BUDGETS = {
    "budget without amounts": (
        "queues: [{name: root, budget: {period: day}}]",
        "partitions[0].queues[0].budget.amounts",
        "nothing: expected amounts of resources for a time, such as vcore: 1000h",
    ),
    "budget of amounts alone": (
        "queues: [{name: root, budget: {amounts: {vcore: 10}}}]",
        "partitions[0].queues[0].budget.amounts.vcore",
        "expected a quantity for a time in hours (h) or days (d), such as 1000h, found 10",
    ),
    "unknown period": (
        "queues: [{name: root, budget: {amounts: {vcore: 1h}, period: year}}]",
        "partitions[0].queues[0].budget.period",
        "'year': expected day, week, month, or a duration from 1m to 87840h",
    ),
    "unknown time zone": (
        "queues: [{name: root, queues: [{name: a, budget: {amounts: {vcore: 1h}, timezone: Mars}}]}]",
        "[0].budget.timezone",
        "'Mars' is unknown: expected the name of a time zone, such as Europe/Berlin",
    ),
    "time zone of a duration": (
        "queues: [{name: root, parent: true, childtemplate: {budget: {amounts: {a: 1h}, period: 2h, timezone: UTC}}}]",
        "partitions[0].queues[0].childtemplate.budget.timezone",
        "'UTC': expected none, as the period is a duration",
    ),
}


@pytest.mark.parametrize(("text", "path", "problem"), BUDGETS.values(), ids=BUDGETS)
def test_budgets_refused(text, path, problem):
    ((where, _, found),) = problems(partition(text))
    assert (where, problem in found) == (path, True), found


PARTITIONS = {
    "root has no max": ("queues: [{name: root, resources: {max: {}}}]", "partitions[0].queues[0].resources.max"),
    "root has no guaranteed": (
        "queues: [{name: ROOT, resources: {guaranteed: {m: 0}}}]",
        "partitions[0].queues[0].resources.guaranteed",
    ),
    "no queues": ("queues:", "partitions[0].queues"),
    "root twice": ("queues: [{name: root}, {name: root}]", "partitions[0].queues[1].name"),
    "root's applications bind": (
        "queues: [{name: root, maxapplications: 1, queues: [{name: a, maxapplications: 2}]}]",
        "[0].maxapplications",
    ),
    "node sort policy": (
        "nodesortpolicy: {type: Fair}\nqueues: [{name: root}]",
        "partitions[0].nodesortpolicy.type",
    ),
    "no device": ("devices: {gpu: 0}\nqueues: [{name: root}]", "partitions[0].devices.gpu"),
    "too many resources on devices": (
        "devices: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}\nqueues: [{name: root}]",
        "partitions[0].devices",
    ),
    "prices without devices": (
        "nodesortpolicy: {type: fragmentation}\nqueues: [{name: root}]",
        "partitions[0].devices",
    ),
    "prices of two resources": (
        "nodesortpolicy: {type: fragmentation}\ndevices: {gpu: 10, fpga: 1}\nqueues: [{name: root}]",
        "partitions[0].devices",
    ),
    "prices of large units": (
        "nodesortpolicy: {type: fragmentation}\ndevices: {gpu: 10001}\nqueues: [{name: root}]",
        "partitions[0].devices",
    ),
    "a level that every topology has": (
        "topology: [{level: host, attribute: a}]\nqueues: [{name: root}]",
        "partitions[0].topology[0].level",
    ),
    "a level twice": (
        "topology: [{level: rack, attribute: a}, {level: rack, attribute: b}]\nqueues: [{name: root}]",
        "partitions[0].topology[1].level",
    ),
    "an attribute twice": (
        "topology: [{level: rack, attribute: a}, {level: block, attribute: a}]\nqueues: [{name: root}]",
        "partitions[0].topology[1].attribute",
    ),
    "a level without an attribute": (
        "topology: [{level: rack}]\nqueues: [{name: root}]",
        "partitions[0].topology[0].attribute",
    ),
    "too many levels": (
        f"topology: [{', '.join(f'{{level: l{n}, attribute: a{n}}}' for n in range(9))}]\nqueues: [{{name: root}}]",
        "partitions[0].topology",
    ),
    "packed by a topology that is not there": (
        "nodesortpolicy: {pack: topology}\nqueues: [{name: root}]",
        "partitions[0].nodesortpolicy.pack",
    ),
    "negative weight": (
        "nodesortpolicy: {resourceweights: {memory: -0.1}}\nqueues: [{name: root}]",
        "partitions[0].nodesortpolicy.resourceweights.memory",
    ),
    "infinite weight": (
        "nodesortpolicy: {resourceweights: {memory: .inf}}\nqueues: [{name: root}]",
        "partitions[0].nodesortpolicy.resourceweights.memory",
    ),
    "more than all of the cluster": (
        "preemption: {threshold: 101}\nqueues: [{name: root}]",
        "partitions[0].preemption.threshold",
    ),
    "no share of the nodes": (
        "reservations: {share: 0}\nqueues: [{name: root}]",
        "partitions[0].reservations.share",
    ),
    "more than all nodes for a queue": (
        "reservations: {share: 100, queueshare: 101}\nqueues: [{name: root}]",
        "partitions[0].reservations.queueshare",
    ),
    "interval without unit": (
        "preemption: {interval: 15}\nqueues: [{name: root}]",
        "partitions[0].preemption.interval",
    ),
    "limits of the partition": ("limits: [{users: [a b], maxapplications: 1}]\nqueues: [{name: root}]", None),
}


@pytest.mark.parametrize(("text", "path"), PARTITIONS.values(), ids=PARTITIONS)
def test_partitions_refused(text, path):
    found = problems(partition(text))
    assert len(found) == 1, found
    assert path is None or found[0][0] == path


def test_partition_names():
    two = "partitions:\n  - {name: GPU, queues: [{name: root}]}\n  - {name: gpu, queues: [{name: root}]}\n"
    assert problems(two) == [("partitions[1].name", 3, "there is already a partition 'gpu'")]
    default = "partitions:\n  - {queues: [{name: root}]}\n  - {name: default, queues: [{name: root}]}\n"
    assert len(problems(default)) == 1


@pytest.mark.parametrize("name", ["a]b", "GPU pool/2 (new)!", "größe", "x" * 64])
def test_partition_names_may_have_unusual_characters(name):
    assert problems(f"partitions: [{{name: '{name}', queues: [{{name: root}}]}}]") == []


@pytest.mark.parametrize("name", ["[rm-1]default", " a", "a ", "x" * 65, "a\u0007b"])
def test_partition_names_refused(name):
    text = f"partitions: [{{name: {json.dumps(name)}, queues: [{{name: root}}]}}]"
    assert "bad partition name" in problems(text)[0][2]


@pytest.mark.parametrize("empty", ["[]", "[null]", "\n  -"])
def test_a_root_is_put_into_an_empty_list_of_queues(empty):
    configuration = remuda_config.load(f"partitions:\n- name: default\n  queues: {empty}\n")
    root = configuration.partitions[0].root
    assert (root.name, root.parent, list(root.queues)) == ("root", True, [])


def test_a_list_of_queues_is_needed():
    assert [each[0] for each in problems("partitions: [{name: default}]")] == ["partitions[0].queues"]
    assert [each[0] for each in problems("partitions: [{name: default, queues: }]")] == ["partitions[0].queues"]


@pytest.mark.parametrize("line", ["checksum: ABC\n", "checksum: 'ABC'  # of version 3\r\n"])
def test_a_checksum_in_the_text_is_no_part_of_it(line):
    text = "partitions: [{queues: [{name: root}]}]\n"
    expected = hashlib.sha256(text.encode()).hexdigest().upper()
    for given in (line + text, text + line, text + line.strip()):
        assert problems(given) == []
        assert remuda_config.load(given).checksum == expected


HIERARCHY = """
partitionhierarchy: same
partitions:
  - {{name: x, queues: [{{name: a, queues: [{{name: b}}, {{name: c}}]}}]}}
  - {{name: y, queues: [{{name: a, queues: {}}}]}}
"""


def test_the_same_hierarchy():
    assert problems(HIERARCHY.format("[{name: b}, {name: c}]")) == []
    assert problems(HIERARCHY.format("[{name: b}, {name: d}]")) == []
    moved = HIERARCHY.format("[{name: b, queues: [{name: c}]}, {name: d}]")
    assert problems(moved) == [
        ("partitions[1].queues", 5, "queue 'c' is root.a.b.c here, but root.a.c in partition 'x'"),
    ]
    assert problems(moved.replace("partitionhierarchy: same", "")) == []
    assert len(problems("partitionhierarchy: other\npartitions: [{queues: [{name: root}]}]")) == 1
