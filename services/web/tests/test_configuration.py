"""The configuration in the forms of the reference."""

from __future__ import annotations

import yaml

from remuda_web.ws_v1.configuration import as_json, as_yaml

TEXT = """
partitions:
  - name: default
    preemption: {enabled: false}
    nodesortpolicy: {type: fair, resourceweights: {memory: 0, vcore: 1.5}}
    queues:
      - name: root
        queues:
          - name: a
            properties: {priority.offset: 0, preemption.policy: "", x: true}
            resources: {max: {vcore: 0, memory: 0}}
            limits: [{limit: "", users: [u], maxapplications: 0, maxresources: {vcore: 0}}]
            childtemplate: {properties: {priority.offset: 0}, resources: {guaranteed: {vcore: 0}}}
"""


def test_zeros_that_mean_something_are_shown() -> None:
    partition = yaml.safe_load(as_yaml(TEXT))["partitions"][0]
    assert partition["nodesortpolicy"] == {"type": "fair", "resourceweights": {"memory": 0, "vcore": 1.5}}
    assert partition["preemption"] == {"enabled": False}
    (queue,) = partition["queues"][0]["queues"]
    assert queue["properties"] == {"priority.offset": "0", "preemption.policy": "", "x": "true"}
    assert queue["resources"] == {"max": {"vcore": "0", "memory": "0"}}
    assert queue["limits"] == [{"users": ["u"], "maxresources": {"vcore": "0"}}]
    assert queue["childtemplate"] == {
        "properties": {"priority.offset": "0"},
        "resources": {"guaranteed": {"vcore": "0"}},
    }


def test_as_json_too() -> None:
    partition = as_json(TEXT)["Partitions"][0]
    assert partition["NodeSortPolicy"] == {"Type": "fair", "ResourceWeights": {"memory": 0, "vcore": 1.5}}
    assert partition["Preemption"] == {"Enabled": False}
    (queue,) = partition["Queues"][0]["Queues"]
    assert queue["Properties"] == {"priority.offset": "0", "preemption.policy": "", "x": "true"}
    assert queue["Resources"] == {"Max": {"vcore": "0", "memory": "0"}}
