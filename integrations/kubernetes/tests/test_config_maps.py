"""The configuration in ConfigMaps."""

from __future__ import annotations

import base64
import gzip

import msgspec
import pytest

from remuda_kubernetes.api.objects import ConfigMap
from remuda_kubernetes.shell.controller import WatchedMaps
from remuda_kubernetes.shim.config_maps import configuration_of, values_of
from remuda_kubernetes.shim.effects import RecordEvent
from remuda_kubernetes.shim.task_groups import PlaceholderUser
from remuda_proto import bounds

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
