"""The configuration in ConfigMaps."""

from __future__ import annotations

import base64
import gzip
import logging
import re

import msgspec
import pytest

from integrations.kubernetes.tests.reporting_shim import shim
from remuda_bus.memory import MemoryBus
from remuda_kubernetes.api.client import Client
from remuda_kubernetes.api.credentials import Credentials, FixedToken
from remuda_kubernetes.api.objects import ConfigMap
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.controller import Controller, WatchedMaps
from remuda_kubernetes.shim.config_maps import configuration_of, values_of
from remuda_kubernetes.shim.effects import RecordEvent
from remuda_kubernetes.shim.task_groups import PlaceholderUser
from remuda_proto import bounds
from remuda_replication.process.logs import LOG_FILTER

NAMES = ("yunikorn-defaults", "yunikorn-configs")


def config_map(
    data: dict[str, str] | None = None, binary: dict[str, bytes] | None = None, name: str = "yunikorn-configs"
) -> ConfigMap:
    encoded = {key: base64.b64encode(value).decode() for key, value in (binary or {}).items()}
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "data": data, "binaryData": encoded}, ConfigMap)


def test_last_map_is_on_top_and_binary_before_text() -> None:
    lower = values_of(config_map({"queues.yaml": "lower", "timing.ended": "1h", "service.policyGroup": "queues"}))
    upper = values_of(config_map({"queues.yaml": "text"}, {"queues.yaml.gz": gzip.compress(b"upper")}))
    found = configuration_of([lower, upper])
    assert found.text == "upper"
    assert found.extra == {"timing.ended": "1h", "service.policyGroup": "queues"}


def test_policy_group_names_the_key_of_the_queues() -> None:
    values = {"service.policyGroup": "blue", "blue.yaml": "b", "queues.yaml": "q"}
    assert configuration_of([values]).text == "b"


def test_settings_of_the_front_end() -> None:
    values = {"service.placeholderImage": "i", "service.disableGangScheduling": "true", "resync": "report"}
    found = configuration_of([values | {"service.enableConfigHotRefresh": "false"}])
    assert (found.placeholder_image, found.gangs, found.is_refreshed) == ("i", False, False)
    assert "resync" not in found.extra


def test_user_of_placeholders() -> None:
    """-1: that of the image, or what the cluster chooses."""
    assert configuration_of([{}]).placeholder_user == PlaceholderUser(65_535, 65_535, None)
    values = {"service.placeholderRunAsUser": "1000", "service.placeholderRunAsGroup": "-1"}
    found = configuration_of([values | {"service.placeholderFsGroup": "2000"}])
    assert found.placeholder_user == PlaceholderUser(1_000, None, 2_000)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None), ({"kubernetes.qps": "200", "kubernetes.burst": "1000"}, (200, 1_000)),
        ({"kubernetes.qps": "5"}, (5, 5)), ({"kubernetes.burst": "5"}, None), ({"kubernetes.qps": "0"}, None),
        ({"kubernetes.qps": "-1", "kubernetes.burst": "10"}, None),
    ],
)  # fmt: skip
def test_pace_of_calls(values: dict[str, str], expected: tuple[int, int] | None) -> None:
    assert configuration_of([values]).calls == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ""), ({"log.level": "DEBUG"}, "debug"), ({"log.level": "1"}, "warning"), ({"log.level": "Fatal"}, "error"),
        ({"log.level": "info", "log.shim.level": "-1"}, "debug"), ({"log.core.level": "DEBUG"}, ""),
    ],
)  # fmt: skip
def test_level_of_the_log(values: dict[str, str], expected: str) -> None:
    """Those of other parts of the family have no effect here."""
    assert configuration_of([values]).log_level == expected


def test_whether_events_tell_what_the_scheduler_records() -> None:
    found = [configuration_of([{"event.trackingEnabled": said}]).is_informed for said in ("true", "FALSE", "")]
    assert found == [True, False, None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kubernetes.qps": "many"}, "kubernetes.qps='many': expected a number"),
        ({"kubernetes.burst": "1.5"}, "kubernetes.burst='1.5': expected a number"),
        ({"log.shim.level": "loud"}, "log.shim.level='loud': expected one of debug, -1, info"),
    ],
)
def test_wrong_values_of_the_front_end_are_named(values: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        configuration_of([values])


def test_time_for_volumes() -> None:
    assert configuration_of([{}]).volume_bind_timeout_s is None
    assert configuration_of([{"service.volumeBindTimeout": "1m30s"}]).volume_bind_timeout_s == 90


@pytest.mark.parametrize("value", ["10", "-10m", "0", "soon"])
def test_time_for_volumes_that_is_none_names_its_key(value: str) -> None:
    with pytest.raises(ValueError, match=r"service\.volumeBindTimeout=.*expected a duration"):
        configuration_of([{"service.volumeBindTimeout": value}])


@pytest.mark.parametrize("value", ["root", "-2", "2147483648", "1.5", "9" * 5_000])
def test_user_of_placeholders_that_is_none_names_its_key(value: str) -> None:
    with pytest.raises(ValueError, match=r"service\.placeholderRunAsUser"):
        configuration_of([{"service.placeholderRunAsUser": value}])


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"queues")[:-9],
        gzip.compress(bytes(bounds.CONFIGURATION_BYTES + 1)),
        gzip.compress(b"\xff"),
    ],
    ids=["none", "cut", "large", "no text"],
)
def test_content_that_cannot_be_read_names_its_key(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"queues\.yaml"):
        values_of(config_map(binary={"queues.yaml.gz": content}))


def test_last_good_configuration_stays() -> None:
    events: list[RecordEvent] = []
    changes: list[str] = []
    maps = WatchedMaps(NAMES, events.append, lambda: changes.append(maps.configuration.text))
    maps.changed(config_map({"queues.yaml": "good"}))
    maps.changed(config_map(binary={"queues.yaml.gz": b"bad"}))
    maps.changed(config_map({"queues.yaml": "other"}, name="another"))
    maps.changed(config_map({"queues.yaml": "good"}))
    assert changes == ["good"]
    assert [(one.of.name, one.reason) for one in events] == [("yunikorn-configs", "ConfigurationRejected")]
    maps.gone(config_map())
    assert changes == ["good", ""]


async def test_front_end_follows_its_part_of_the_maps() -> None:
    client = Client(Credentials("http://none", None, FixedToken("")))
    controller = Controller(MemoryBus(), client, KubernetesSettings(), shim("n1"), 36)
    controller._apply(configuration_of([{"kubernetes.qps": "7", "log.level": "debug"}]))
    assert client.pace is not None and LOG_FILTER.base == logging.DEBUG
    controller._apply(configuration_of([{}]))
    assert client.pace is None and LOG_FILTER.base == logging.INFO
