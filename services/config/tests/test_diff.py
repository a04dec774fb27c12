from __future__ import annotations

import remuda_config
from services.config.tests.texts import partition, queues


def between(before: str, after: str) -> list[str]:
    return remuda_config.difference(remuda_config.load(before), remuda_config.load(after))


def test_nothing():
    assert between(queues("- name: a"), queues("- {name: A, properties: {}}  # the same")) == []


def test_queues():
    before = """
- {name: prod, resources: {max: {memory: 10G, vcore: 1}}, properties: {priority.offset: 1}}
- {name: gone}
- {name: test, submitacl: u, limits: [{users: [u], maxapplications: 1}]}
"""
    after = """
- {name: prod, resources: {max: {memory: 20G}}, maxapplications: 4, queues: [{name: new, maxapplications: 1}]}
- {name: test, submitacl: '*', limits: [{users: [u], maxresources: {vcore: 500m}}, {groups: [g], maxapplications: 1}]}
"""
    assert between(queues(before), queues(after)) == [
        "root.gone: removed",
        "root.prod: kind leaf → parent",
        "root.prod: max memory 10G → 20G",
        "root.prod: max vcore 1 → (none)",
        "root.prod: priority.offset 1 → (none)",
        "root.prod: maxapplications (none) → 4",
        "root.prod.new: added",
        "root.test: submitacl 'u' → '*'",
        "root.test: limit of user u applications 1 → vcore 500m",
        "root.test: limit of group g (none) → applications 1",
    ]


def test_partitions():
    one = "partitions: [{queues: [{name: root}]}]"
    two = """
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, pack: application, resourceweights: {gpu: 2.5}}
    preemption: {enabled: false, threshold: 80, interval: 1m}
    reservations: {share: 30}
    devices: {gpu: 1k}
    topology: [{level: rack, attribute: si/rackname}]
    placementrules: [{name: user, create: true, filter: {users: [a, b]}, parent: {name: fixed, value: p, create: true}}]
    queues: [{name: root}]
  - {name: gpu, queues: [{name: root}]}
"""
    assert between(one, two) == [
        "partition default: node sort policy fair → binpacking",
        "partition default: weight of memory 1 → (none)",
        "partition default: weight of vcore 1 → (none)",
        "partition default: preemption enabled → disabled",
        "partition default: placement rules (none) → user (create) (allow users a b) below fixed p (create)",
        "partition default: packed (none) → by application",
        "partition default: weight of gpu (none) → 2.5",
        "partition default: preemption threshold (none) → 80",
        "partition default: preemption interval, ms (none) → 60000",
        "partition default: reservation share (none) → 30",
        "partition default: device of gpu (none) → 1k",
        "partition default: topology (none) → rack by si/rackname",
        "partition gpu: added",
    ]
    assert between(two, one)[-1] == "partition gpu: removed"


def test_weights_that_differ_in_a_late_digit():
    before, after = (f"nodesortpolicy: {{resourceweights: {{gpu: {weight}}}}}" for weight in (1234567, 1234568))
    changed = between(*(partition(f"{text}\nqueues: [{{name: root}}]") for text in (before, after)))
    assert changed == ["weight of gpu 1234567 → 1234568"]


def test_templates():
    before = partition("queues: [{name: root, childtemplate: {maxapplications: 1, resources: {max: {m: 1}}}}]")
    after = partition("queues: [{name: root, childtemplate: {properties: {a: b}, resources: {guaranteed: {m: 1}}}}]")
    assert between(before, after) == [
        "root: template maxapplications 1 → (none)",
        "root: template max m 1 → (none)",
        "root: template guaranteed m (none) → 1",
        "root: template a (none) → b",
    ]
