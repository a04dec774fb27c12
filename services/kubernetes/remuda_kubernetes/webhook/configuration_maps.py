"""The queue configuration in config maps that users of this family of schedulers have. Pure."""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from typing import Final

from remuda_kubernetes import limits
from remuda_kubernetes.webhook.user_info import Denied, Json

MAPS: Final = ("yunikorn-defaults", "yunikorn-configs", "remuda-configs")
_KNOWN: Final = ("service.", "log.", "event.", "health.", "kubernetes.", "admissionController.")
_ZIPPED: Final = ".gz"


def queues_of(map_: Json, policy_group: str) -> str:
    """The text that a map has for `<policy_group>.yaml`; empty: none. Raises Denied when the map is malformed, or has
    only keys without a meaning."""
    values = dict(map_.get("data") or {})
    for key, encoded in (map_.get("binaryData") or {}).items():
        name, text = _unpacked(key, encoded)
        values[name] = text
    name = f"{policy_group}.yaml"
    if values and name not in values and not any(key.startswith(_KNOWN) for key in values):
        raise Denied(f"expected the key {name}, found {', '.join(sorted(values))}")
    return str(values.get(name, ""))


def _unpacked(key: str, encoded: str) -> tuple[str, str]:
    try:
        content = base64.b64decode(encoded, validate=True)
        if key.endswith(_ZIPPED):
            unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            content = unzip.decompress(content, limits.CONFIGURATION_BYTES)
            if unzip.unconsumed_tail:
                raise Denied(f"{key}: expected at most {limits.CONFIGURATION_BYTES} bytes")
        return key.removesuffix(_ZIPPED), content.decode()
    except (binascii.Error, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise Denied(f"{key}: {error}") from None
