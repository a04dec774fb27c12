"""The configuration in ConfigMaps: those that users of the family have, and our own. Pure.

Maps are laid over each other, key by key, the last one on top. In a map, binaryData counts before data. A key that ends
in `.gz` is compressed and loses the ending. `<policy group>.yaml` is the text of the queues; other keys that end in
`.yaml` are not used, and all others are settings of the RM.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import ConfigMap
from remuda_kubernetes.shim.task_groups import USUAL_USER, PlaceholderUser
from remuda_proto.bounds import shown
from remuda_proto.durations import EXPECTED, milliseconds

POLICY_GROUP: Final = "service.policyGroup"
HOT_REFRESH: Final = "service.enableConfigHotRefresh"
VOLUME_BIND_TIMEOUT: Final = "service.volumeBindTimeout"
PLACEHOLDER_IMAGE: Final = "service.placeholderImage"
PLACEHOLDER_USER: Final = "service.placeholderRunAsUser"
PLACEHOLDER_GROUP: Final = "service.placeholderRunAsGroup"
PLACEHOLDER_VOLUMES: Final = "service.placeholderFsGroup"
WITHOUT_GANGS: Final = "service.disableGangScheduling"
CALLS_PER_S: Final = "kubernetes.qps"
CALLS_AT_ONCE: Final = "kubernetes.burst"
# Of the log: that of this part of the family counts before that of all.
LOG_LEVELS: Final = ("log.shim.level", "log.level")
TRACKING: Final = "event.trackingEnabled"
# The levels of the family, by names and by numbers, and those of this process.
_LEVELS: Final = {
    "debug": "debug", "-1": "debug", "info": "info", "0": "info", "warn": "warning", "warning": "warning",
    "1": "warning", "error": "error", "2": "error", "dpanic": "error", "3": "error", "panic": "error", "4": "error",
    "fatal": "error", "5": "error",
}  # fmt: skip
# Settings of the registration that the front end makes itself.
_OWN: Final = ("events", "forget.after", "heartbeat.interval", "heartbeat.timeout", "predicates",
               "preemption_predicates", "reservation.disabled", "resync")  # fmt: skip
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class MapsConfiguration:
    """The configuration that ConfigMaps describe. `text`: the configuration of the queues; empty: none. `extra`:
    settings of the RM. The others are the front end's own: `calls`: of the API, how many a second, and how many at once
    beyond that; None: any number. `log_level`: empty: that of the settings. `is_informed`: events tell what the
    scheduler records; None: as the settings say."""

    text: str = ""
    extra: dict[str, str] = field(default_factory=dict)
    is_refreshed: bool = True
    placeholder_image: str = ""
    gangs: bool = True
    placeholder_user: PlaceholderUser = USUAL_USER
    volume_bind_timeout_s: float | None = None
    calls: tuple[int, int] | None = None
    log_level: str = ""
    is_informed: bool | None = None


def configuration_of(maps: Iterable[Mapping[str, str]]) -> MapsConfiguration:
    """The configuration from the values of maps; a later map overrides an earlier one. Raises ValueError for settings
    that are too large, or wrong."""
    values: dict[str, str] = {}
    for one in maps:
        values |= one
    group = values.get(POLICY_GROUP) or "queues"
    extra = {key: value for key, value in values.items() if not key.endswith(".yaml") and key not in _OWN}
    size = sum(len(key) + len(value.encode()) for key, value in extra.items())
    if len(extra) > limits.EXTRA_SETTINGS or size > limits.EXTRA_SETTINGS_BYTES:
        raise ValueError(f"{len(extra)} settings of {size} bytes: expected at most {limits.EXTRA_SETTINGS} settings "
                         f"of {limits.EXTRA_SETTINGS_BYTES} bytes")  # fmt: skip
    return MapsConfiguration(
        values.get(f"{group}.yaml", ""),
        extra,
        values.get(HOT_REFRESH, "").lower() != "false",
        values.get(PLACEHOLDER_IMAGE, ""),
        values.get(WITHOUT_GANGS, "").lower() != "true",
        PlaceholderUser(
            _number(values, PLACEHOLDER_USER, USUAL_USER.user),
            _number(values, PLACEHOLDER_GROUP, USUAL_USER.group),
            _number(values, PLACEHOLDER_VOLUMES, USUAL_USER.volumes),
        ),
        _seconds(values, VOLUME_BIND_TIMEOUT),
        _calls(values),
        next((_level(values, key) for key in LOG_LEVELS if values.get(key)), ""),
        None if not values.get(TRACKING) else values[TRACKING].lower() == "true",
    )


def _calls(values: Mapping[str, str]) -> tuple[int, int] | None:
    """0 and -1 are no limit. Without a burst, as many as a second has may come at once."""
    per_s, at_once = (_number(values, key, None) or 0 for key in (CALLS_PER_S, CALLS_AT_ONCE))
    return (per_s, at_once or per_s) if per_s else None


def _level(values: Mapping[str, str], key: str) -> str:
    level = _LEVELS.get(values[key].strip().lower())
    if level is None:
        raise ValueError(f"{key}={shown(values[key])}: expected one of {', '.join(_LEVELS)}")
    return level


def _seconds(values: Mapping[str, str], key: str) -> float | None:
    """None: not said."""
    text = values.get(key, "")
    if not text:
        return None
    duration_ms = milliseconds(text)
    if not duration_ms:
        raise ValueError(f"{key}={shown(text)}: {EXPECTED}")
    return duration_ms / 1_000


def _number(values: Mapping[str, str], key: str, default: int | None) -> int | None:
    """None: -1, not said."""
    text = values.get(key, "")
    if not text:
        return default
    if text == "-1":
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(limits.LARGEST_ID))
    if not is_number or int(text) > limits.LARGEST_ID:
        raise ValueError(f"{key}={shown(text)}: expected a number from 0 to {limits.LARGEST_ID}, or -1")
    return int(text)


def values_of(of: ConfigMap) -> dict[str, str]:
    """The values of a map by key. Raises a ValueError that names the key."""
    values = dict(of.data or {})
    for key, encoded in (of.binary_data or {}).items():
        try:
            content = base64.b64decode(encoded, validate=True)
            if key.endswith(".gz"):
                key, content = key.removesuffix(".gz"), _gunzipped(content)
            values[key] = content.decode()
        except (binascii.Error, zlib.error, ValueError) as error:
            raise ValueError(f"{key}: {error}") from None
    return values


def _gunzipped(content: bytes) -> bytes:
    reader = zlib.decompressobj(_GZIP)
    text = reader.decompress(content, limits.CONFIGURATION_BYTES)
    if not reader.eof:
        raise ValueError(f"expected a whole gzip of at most {limits.CONFIGURATION_BYTES} bytes")
    return text
