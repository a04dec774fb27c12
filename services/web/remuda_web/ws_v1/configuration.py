"""The configuration in the reference's two forms: YAML, and JSON with the names of its structures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import yaml

from remuda_web.ws_v1.go_json import Json

# Keys of queues.yaml whose name in JSON is more than capitalised.
NAMES: Final = {
    "submitacl": "SubmitACL", "adminacl": "AdminACL", "placementrules": "PlacementRules",
    "nodesortpolicy": "NodeSortPolicy", "resourceweights": "ResourceWeights", "maxapplications": "MaxApplications",
    "maxresources": "MaxResources", "childtemplate": "ChildTemplate", "statedumpfilepath": "StateDumpFilePath",
}  # fmt: skip
BUILT_IN: Final = (
    "partitions: [{name: default, placementrules: [{name: provided}, {name: tag, value: namespace, create: true}], "
    'queues: [{name: root, submitacl: "*"}]}]'
)
# Maps whose keys are names that users give. They stay as they are, and so do their values.
PLAIN: Final = {"properties", "guaranteed", "max", "maxresources", "resourceweights"}


def wants_json(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers is answered with JSON. No other answer depends on what a client accepts."""
    return headers.get("accept") == "application/json"


def document(text: str) -> Json:
    """The configuration as data, with the defaults that the reference writes out, and its checksum."""
    written = yaml.safe_load(text) if text.strip() else None
    found: Json = written if isinstance(written, dict) else yaml.safe_load(BUILT_IN)
    shown = {key: value for key, value in found.items() if key != "checksum"}
    for partition in _list(shown.get("partitions")):
        for root in _list(partition.get("queues")):
            if str(root.get("name", "")).lower() == "root":
                root["parent"] = True
            _as_texts(root)
    shown = {key: _written(value) for key, value in shown.items()}
    return {**shown, "checksum": hashlib.sha256(text.encode()).hexdigest().upper()}


def _written(value: Any) -> Any:
    """Without values that the reference leaves out. It keeps those of maps that users name, and that preemption is
    off."""
    if isinstance(value, list):
        return [_written(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: one if key in PLAIN else _written(one)
        for key, one in value.items()
        if (one not in (None, False, "", 0) or (key == "enabled" and one is False)) and one != [] and one != {}
    }


def _list(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _as_texts(queue: Json) -> None:
    """Quantities and properties are texts, here and below."""
    template = queue.get("childtemplate") or {}
    for holder, kinds in (
        (queue.get("resources"), ("guaranteed", "max")),
        (template.get("resources"), ("guaranteed", "max")),
        (queue, ("properties",)),
        (template, ("properties",)),
        *((limit, ("maxresources",)) for limit in _list(queue.get("limits"))),
    ):
        for kind in kinds:
            if isinstance(holder, dict) and isinstance(holder.get(kind), dict):
                holder[kind] = {name: _text(value) for name, value in holder[kind].items()}
    for child in _list(queue.get("queues")):
        _as_texts(child)


def _text(value: object) -> str:
    """A scalar as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def as_yaml(text: str) -> bytes:
    dumped: str = yaml.safe_dump(document(text), sort_keys=False, allow_unicode=True, indent=4)
    return dumped.encode()


def as_json(text: str) -> Json:
    shown = document(text)
    for partition in _list(shown.get("partitions")):
        partition.setdefault("preemption", {})
        partition.setdefault("nodesortpolicy", {"type": ""})
        for rule in _list(partition.get("placementrules")):
            _complete_rule(rule)
        for queue in _list(partition.get("queues")):
            _complete_queue(queue)
    named: Json = _named(shown)
    return named


def _complete_rule(rule: Json) -> None:
    rule.setdefault("filter", {}).setdefault("type", "")
    if isinstance(rule.get("parent"), dict):
        _complete_rule(rule["parent"])


def _complete_queue(queue: Json) -> None:
    queue.setdefault("resources", {})
    queue.setdefault("childtemplate", {}).setdefault("resources", {})
    for child in _list(queue.get("queues")):
        _complete_queue(child)


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(one) for one in value]
    if not isinstance(value, dict):
        return value
    shown: Json = {}
    for key, item in value.items():
        name = NAMES.get(key, str(key).capitalize())
        item = item if key in PLAIN else _named(item)
        if item not in (None, "", [], False, 0) or (key, item) in (("type", ""), ("enabled", False)):
            shown[name] = item
    return shown


def rule(row: Mapping[str, Any]) -> Json:
    """A placement rule, from the row of a partition."""
    parameters = {key: row[key] for key in ("value",) if row.get(key)}
    shown: Json = {"name": row["name"], "parameters": {**parameters, "create": str(bool(row["create"])).lower()}}
    if row.get("filter"):
        kept = row["filter"]
        shown["filter"] = {"type": kept["type"], "userList": list(kept["users"]), "groupList": list(kept["groups"])}
    if row.get("parent"):
        shown["parentRule"] = rule(row["parent"])
    return shown
