from __future__ import annotations

import hashlib
import re

import pytest

import remuda_config
from remuda_config.extra_config import check_extra_config, read_timing
from remuda_config.rules import properties
from remuda_proto.remuda.v1 import config_pb2
from services.config.tests.texts import partition, queues, rules


def root_of(text: str) -> config_pb2.QueueConfig:
    return remuda_config.load(text).partitions[0].root


def test_the_built_in_default():
    for text in ("", " \n"):
        configuration = remuda_config.load(text, source="somewhere")
        assert configuration.source == "built-in"
        assert configuration.checksum == remuda_config.checksum(remuda_config.BUILT_IN)
        (default,) = configuration.partitions
        assert (default.name, default.root.submit_acl, default.root.parent) == ("default", "*", True)
        assert [(rule.name, rule.create, rule.value) for rule in default.placement_rules] == [
            ("provided", False, ""),
            ("tag", True, "namespace"),
        ]


def test_identity():
    text = queues("- name: a")
    configuration = remuda_config.load(text, "x.yaml", "yunikorn-1.4")
    assert configuration.checksum == hashlib.sha256(text.encode()).hexdigest().upper()
    assert (configuration.source, configuration.compatibility) == ("x.yaml", "yunikorn-1.4")
    assert remuda_config.load(text).compatibility == "none"
    with pytest.raises(remuda_config.Invalid, match=r"yunikorn-1\.4"):
        remuda_config.load(text, compatibility="yunikorn-1.3")


@pytest.mark.parametrize(
    ("tops", "below"),
    [
        ("[{name: Root, queues: [{name: A}]}]", ["a"]),
        ("[{name: a}]", ["a"]),
        ("[{name: root}, {name: b}]", ["root", "b"]),
    ],
)
def test_there_is_one_root(tops, below):
    root = root_of(partition(f"queues: {tops}"))
    assert (root.name, root.parent, [queue.name for queue in root.queues]) == ("root", True, below)


def test_base_units_and_absence():
    (queue,) = root_of(queues("- {name: a, resources: {max: {vcore: 500m, memory: 1Gi}, guaranteed: {}}}")).queues
    assert {name: amount.value for name, amount in queue.max.resources.items()} == {"vcore": 500, "memory": 2**30}
    assert not queue.HasField("guaranteed")
    assert not queue.HasField("child_template")
    assert not queue.parent


def test_partition_settings():
    text = "preemption: {enabled: false, threshold: 80, interval: 1m30s}\n"
    text += "reservations: {share: 30, queueshare: 10}\n"
    text += "nodesortpolicy: {type: binpacking, resourceweights: {gpu: 2, memory: -0.0}}\n"
    built = remuda_config.load(partition(text + "queues: [{name: root}]")).partitions[0]
    assert not built.preemption_enabled
    assert (built.preemption_threshold, built.preemption_interval_ms) == (80, 90_000)
    assert (built.reservation_share, built.queue_reservation_share) == (30, 10)
    assert (built.node_sort_policy.type, dict(built.node_sort_policy.resource_weights)) == (
        "binpacking",
        {"gpu": 2, "memory": 0},
    )
    plain = remuda_config.load("partitions: [{name: GPU, queues: [{name: root}]}]").partitions[0]
    assert (plain.name, plain.preemption_enabled, plain.node_sort_policy.type) == ("gpu", True, "fair")
    assert (plain.preemption_threshold, plain.preemption_interval_ms) == (0, 0)
    assert (plain.reservation_share, plain.queue_reservation_share) == (0, 0)
    assert dict(plain.node_sort_policy.resource_weights) == {"vcore": 1, "memory": 1}


@pytest.mark.parametrize(("text", "pack"), [("application", "application"), ("none", ""), ("''", "")])
def test_packing(text: str, pack: str) -> None:
    built = remuda_config.load(partition(f"nodesortpolicy: {{pack: {text}}}\nqueues: [{{name: root}}]")).partitions[0]
    assert built.node_sort_policy.pack == pack


def test_devices() -> None:
    text = "devices: {gpu: 1k, fpga: 1}\nqueues: [{name: root}]"
    built = remuda_config.load(partition(text)).partitions[0]
    assert {name: amount.value for name, amount in built.devices.resources.items()} == {"gpu": 1000, "fpga": 1}
    assert not remuda_config.load(partition("queues: [{name: root}]")).partitions[0].HasField("devices")
    with pytest.raises(remuda_config.Invalid, match="compatibility: yunikorn-1.4 has no devices"):
        remuda_config.load(partition(text), compatibility="yunikorn-1.4")


def test_topology() -> None:
    text = (
        "topology: [{level: zone, attribute: si/zone}, {level: rack, attribute: si/rackname}]\nqueues: [{name: root}]"
    )
    built = remuda_config.load(partition(text)).partitions[0]
    assert [(one.level, one.attribute) for one in built.topology] == [("zone", "si/zone"), ("rack", "si/rackname")]
    with pytest.raises(remuda_config.Invalid, match=r"half-life.*compatibility: yunikorn-1\.4 has no such property"):
        remembers = "queues: [{name: root, queues: [{name: a, properties: {fair.half-life: 1h}}]}]"
        remuda_config.load(partition(remembers), compatibility="yunikorn-1.4")
    with pytest.raises(remuda_config.Invalid, match=r"compatibility: yunikorn-1\.4 has no topology"):
        remuda_config.load(partition(text), compatibility="yunikorn-1.4")


def test_budgets() -> None:
    budget = "budget: {amounts: {vcore: 10h, memory: 2Gi h, gpu: 20d}"
    text = f"queues: [{{name: root, queues: [{{name: a, {budget}, period: week, timezone: Europe/Berlin}}}}]}}]"
    built = remuda_config.load(partition(text)).partitions[0].root.queues[0].budget
    amounts = {name: amount.value for name, amount in built.amounts.resources.items()}
    assert amounts == {"vcore": 10_000, "memory": 2**31, "gpu": 480}
    assert (built.calendar, built.period_ms, built.zone) == ("week", 0, "Europe/Berlin")
    first, then, back = ((one.from_ms, one.offset_ms) for one in built.offsets[:3])
    assert first == (0, 3_600_000)
    assert then == (1_585_443_600_000, 7_200_000)  # 2020-03-29 01:00 UTC
    assert back == (1_603_587_600_000, 3_600_000)  # 2020-10-25 01:00 UTC
    text = "queues: [{name: root, budget: {amounts: {vcore: 1h}, period: 90m}}]"
    built = remuda_config.load(partition(text)).partitions[0].root.budget
    assert (built.calendar, built.period_ms, built.zone, len(built.offsets)) == ("", 5_400_000, "", 0)
    with pytest.raises(remuda_config.Invalid, match=r"compatibility: yunikorn-1\.4 has no budgets"):
        remuda_config.load(partition(text), compatibility="yunikorn-1.4")


def test_unknown_packing() -> None:
    with pytest.raises(remuda_config.Invalid, match="unknown value 'node': expected none, application or topology"):
        remuda_config.load(partition("nodesortpolicy: {pack: node}\nqueues: [{name: root}]"))


def test_what_is_inherited():
    above = {
        "application.sort.policy": "fair",
        "preemption.delay": "5s",
        "priority.offset": "7",
        "priority.policy": "fence",
        "preemption.policy": "fence",
        "team": "x",
    }
    assert properties.inherit(above, {"application.sort.policy": "fifo"}) == {
        "application.sort.policy": "fifo",
        "preemption.delay": "5s",
        "priority.offset": "0",
        "priority.policy": "default",
        "preemption.policy": "default",
        "team": "x",
    }
    assert properties.inherit({"preemption.policy": "disabled"}, {}) == {"preemption.policy": "disabled"}


def test_inherited_down_the_tree_from_root():
    text = (
        "queues: [{name: root, properties: {team: x, priority.offset: +03}, queues: [{name: p, queues: [{name: c}]}]}]"
    )
    root = root_of(partition(text))
    assert dict(root.properties) == {"team": "x", "priority.offset": "3"}
    assert dict(root.queues[0].queues[0].properties) == {"team": "x", "priority.offset": "0"}


def test_a_leaf_has_no_template():
    root = remuda_config.load(queues("- {name: a, childtemplate: {maxapplications: 2}}")).partitions[0].root
    assert not root.queues[0].HasField("child_template")


def test_templates_and_limits():
    text = """
- name: a
  parent: true
  childtemplate: {maxapplications: 2, properties: {priority.policy: Fence}, resources: {max: {m: 1}}}
  limits: [{limit: all, users: [u, '*'], groups: [g], maxresources: {m: 5}, maxapplications: 3}]
- name: b
  childtemplate: {}
"""
    a, b = root_of(queues(text)).queues
    assert (a.child_template.max_applications, dict(a.child_template.properties)) == (2, {"priority.policy": "fence"})
    assert a.child_template.max.resources["m"].value == 1
    (limit,) = a.limits
    assert (limit.description, list(limit.users), list(limit.groups)) == ("all", ["u", "*"], ["g"])
    assert (limit.max_resources.resources["m"].value, limit.max_applications) == (5, 3)
    assert not b.HasField("child_template")


@pytest.mark.parametrize(
    ("acl", "built"),
    [("*", "*"), ("* g", "*"), (" *", "*"), ("", ""), (" ", ""), ("u ", "u"), (" g", " g"), ("u,v g", "u,v g")],
)
def test_acls(acl, built):
    (queue,) = root_of(queues(f"- {{name: a, submitacl: '{acl}'}}")).queues
    assert queue.submit_acl == built


def test_rules():
    built = remuda_config.load(
        rules(
            """
- {name: PrimaryGroupName, create: yes, parent: {name: FIXED, value: Root.P}}
- {name: tag, value: Some.Tag, filter: {type: Deny, groups: [a.b]}}
- {name: SecondaryGroupName, filter: {groups: [a, b, a], users: ['^x']}}
- {name: ApplicationType}
"""
        )
    ).partitions[0]
    primary, tag, secondary, kind = built.placement_rules
    assert (primary.name, primary.create, primary.parent.name, primary.parent.value) == (
        "primarygroup",
        True,
        "fixed",
        "root.p",
    )
    assert (tag.name, tag.value, tag.filter.type) == ("tag", "Some.Tag", "deny")
    assert re.search(tag.filter.groups[0], "a.b")
    assert not any(re.search(tag.filter.groups[0], other) for other in ("axb", "xa.b", "a.bx"))
    assert (secondary.name, list(secondary.filter.groups), list(secondary.filter.users)) == (
        "secondarygroup",
        ["a", "b"],
        ["^x"],
    )
    assert (kind.name, kind.filter.type) == ("applicationtype", "allow")


def test_times_of_extra_config():
    times, problems = read_timing({"timing.completing": "1m30s", "timing.reservation_delay": "1ms", "other": "x"})
    assert (times.completing_ms, times.reservation_delay_ms, times.starting_ms, problems) == (90_000, 1, 0, [])
    bad = {"timing.completing": "0s", "timing.starting": "soon", "timing.lunch": "1h"}
    assert [problem.path for problem in check_extra_config(bad)] == [f"extraConfig[{key!r}]" for key in bad]


def test_extra_config():
    assert check_extra_config({"compatibility": "yunikorn-1.4", "resync": "replay", "service.x": "y"}) == []
    assert [problem.path for problem in check_extra_config({"queues.yaml": "", "compatibility": "old"})] == [
        'extraConfig["queues.yaml"]',
        "extraConfig.compatibility",
    ]


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ({"preemption.quota.delay": "15m"}, {"quota.preemption.delay": "15m"}),
        ({"preemption.quota.delay": "15m", "quota.preemption.delay": "1h"}, {"quota.preemption.delay": "1h"}),
        ({"application.sort.policy": "Disabled"}, {"application.sort.policy": "disabled"}),
    ],
)
def test_properties_of_other_versions_have_the_names_and_values_of_the_newest(written, built):
    assert properties.canonical(written) == built
