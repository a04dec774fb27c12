"""What is worth knowing about a valid text: values without effect, and the versions that keys and values are of."""

from __future__ import annotations

import pytest

from remuda_config import Invalid, advice_on
from services.config.tests.texts import partition, queues

ROOT_HAS_NONE = "root has no limits, so that these are the limits of root"


def found(text: str) -> tuple[list[str], list[str]]:
    """The warnings and versions, as `line path: message`."""
    shared = "partitions[0]."
    warnings, versions = (
        [f"{one.line} {one.path.removeprefix(shared)}: {one.message}" for one in kind] for kind in advice_on(text)
    )
    return warnings, versions


def test_a_text_that_all_versions_read_alike():
    assert found(queues("- name: a\n  properties:\n    application.sort.policy: fair\n    priority.offset: -9999")) == (
        [],
        [],
    )


def test_limits_of_a_partition():
    text = partition("limits:\n- users: ['*']\n  maxapplications: 1\nqueues: []")
    assert found(text) == (
        [f"3 limits: {ROOT_HAS_NONE}"],
        ["3 limits: with effect in Apache YuniKorn 1.5 and later"],
    )


def test_a_limit_below_that_is_wider_than_that_of_the_partition():
    text = partition(
        """
        limits:
        - users: ['*']
          maxapplications: 1
        queues:
        - name: a
          limits:
          - users: ['*']
            maxapplications: 2
        """
    )
    assert found(text)[0] == [
        f"3 limits: {ROOT_HAS_NONE}",
        "10 queues[0].limits[0].maxapplications: 2 for user '*' is above the 1 of root",
    ]


def test_limits_of_a_partition_beside_those_of_root():
    text = partition(
        """
        limits:
        - users: ['*']
          maxapplications: 1
        queues:
        - name: root
          limits:
          - users: ['*']
            maxapplications: 2
        """
    )
    assert found(text)[0] == [
        "3 limits: without effect, since root has limits of its own; YuniKorn refuses both from 1.5 on"
    ]


@pytest.mark.parametrize(
    ("keys", "warning", "version"),
    [
        (
            "usergroupresolver: {type: ldap}",
            "usergroupresolver: without effect: groups of users are a setting of the service processes"
            " (groups.resolver: ldap)",
            "usergroupresolver: of Apache YuniKorn 1.8 and later",
        ),
        (
            "statedumpfilepath: state.txt",
            "statedumpfilepath: without effect: `remuda dump` prints the state",
            "statedumpfilepath: of Apache YuniKorn 1.0 to 1.4",
        ),
        ("devices: {gpu: 1}", None, "devices: of remuda; Apache YuniKorn has no such key"),
        (
            "preemption: {quotapreemptionenabled: true}",
            None,
            "preemption.quotapreemptionenabled: of Apache YuniKorn 1.8 and later",
        ),
    ],
)
def test_keys_of_a_partition(keys, warning, version):
    assert found(partition(f"{keys}\nqueues: []")) == ([f"3 {warning}"] if warning else [], [f"3 {version}"])


@pytest.mark.parametrize(
    ("name", "value", "warning", "version"),
    [
        (
            "application.sort.policy", "StateAware",
            "is fifo, as since YuniKorn 1.6, unless the RM has compatibility: yunikorn-1.4",
            "a policy of its own in Apache YuniKorn 1.0 to 1.5",
        ),
        (
            "application.sort.policy", "disabled",
            "'disabled' is unknown, and is fifo: expected fifo, fair, fair-users, stateaware", None,
        ),
        (
            "application.unschedasks.backoff", "5",
            "without effect: asks that nothing helps are passed over without a delay",
            "of Apache YuniKorn 1.8 and later",
        ),
        (
            "preemption.quota.delay", "15m", None,
            "of Apache YuniKorn 1.8; 1.9 and later call it quota.preemption.delay",
        ),
        ("application.sort.policy", "fair-users", None, "of remuda; Apache YuniKorn has no such value"),
        ("quota.preemption.delay", "15m", None, "of Apache YuniKorn 1.9 and later"),
    ],
)  # fmt: skip
def test_properties(name, value, warning, version):
    for text, where in (
        (f"- name: a\n  properties: {{{name}: {value}}}", ""),
        (f"- name: a\n  parent: true\n  childtemplate:\n    properties: {{{name}: {value}}}", "childtemplate."),
    ):
        warnings, versions = found(queues(text))
        place = f'queues[0].queues[0].{where}properties["{name}"]: '
        assert [one.partition(" ")[2] for one in warnings] == ([place + warning] if warning else [])
        assert [one.partition(" ")[2] for one in versions] == ([place + version] if version else [])


def test_names_of_queues():
    assert found(queues("- name: team@corp/etl"))[1] == [
        "6 queues[0].queues[0].name: a name with / @ is of Apache YuniKorn 1.6 and later"
    ]


def test_an_invalid_text_has_problems_instead():
    with pytest.raises(Invalid):
        advice_on("partitions: 1")
