"""The OpenAPI document: parameters, bodies and answers of methods, from the protos. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from remuda_operations.ledger.hours import KINDS
from remuda_operations.operator_api.methods import SERVICES, Access, Method
from remuda_operations.queries.rows import ROWS, Stats
from remuda_web import limits, problems
from remuda_web.api_v1.models import Descriptor, answer_model, request_model
from remuda_web.api_v1.paths import LISTS

Schema = dict[str, Any]
PROBLEM: Final = "Problem"
_REF: Final = "#/components/schemas/"
# Of the rows of queries. Messages of the protos have the same names without the ending.
_ROW: Final = f"{_REF}{{name}}Row"
_PROBLEM_SCHEMA: Final[Schema] = {
    "type": "object", "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "detail": {"type": "string"}, "field": {"type": "string"}, "value": {"type": "string"},
        "expected": {"type": "string"}, "problems": {"type": "array", "items": {"type": "object"}},
    },
}  # fmt: skip
OBJECT: Final[Schema] = {"type": "object"}
STATS: Final[Schema] = {"$ref": _ROW.format(name=Stats.__name__)}
RMS: Final[Schema] = {
    "type": "object", "required": ["rms"], "properties": {"rms": {"type": "array", "items": {"type": "string"}}},
}  # fmt: skip
ME: Final[Schema] = {
    "type": "object", "required": ["operator", "groups", "reads_all"],
    "properties": {
        "operator": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "reads_all": {"type": "boolean"},
        "groups": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip
WELCOME: Final[Schema] = {
    "type": "object", "required": ["nats", "keys"],
    "properties": {"nats": {"type": "string"}, "keys": {"type": "boolean"}},
}  # fmt: skip
_OBJECTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
OVERVIEW: Final[Schema] = {
    "type": "object", "required": ["at_ms", "rms", "attention", "changes"],
    "properties": {"at_ms": {"type": "integer"}, "rms": _OBJECTS, "attention": _OBJECTS, "changes": _OBJECTS},
}  # fmt: skip
_WHOLE: Final[Schema] = {"type": "integer"}
_TEXT: Final[Schema] = {"type": "string"}
PAST: Final[Schema] = {
    "type": "object", "required": ["rm", "since_ms", "until_ms", "first_seq", "last_seq"],
    "properties": {"rm": _TEXT, "since_ms": _WHOLE, "until_ms": _WHOLE, "first_seq": _WHOLE, "last_seq": _WHOLE},
}  # fmt: skip
_REPLAY_FIELDS: Final[Schema] = {
    "id": _TEXT, "title": _TEXT, "since": _TEXT, "at_ms": _WHOLE, "problem": _TEXT,
    "state": {"type": "string", "enum": ["running", "done", "failed"]},
}  # fmt: skip
REPLAY_ROW: Final[Schema] = {"type": "object", "required": [*_REPLAY_FIELDS], "properties": _REPLAY_FIELDS}
REPLAYS: Final[Schema] = {
    "type": "object", "required": ["replays"], "properties": {"replays": {"type": "array", "items": REPLAY_ROW}},
}  # fmt: skip
# `report`: docs/history.md; null while it runs.
REPLAY: Final[Schema] = {
    "type": "object", "required": [*_REPLAY_FIELDS, "report"],
    "properties": {**_REPLAY_FIELDS, "report": {"anyOf": [OBJECT, {"type": "null"}]}},
}  # fmt: skip
_NUMBERS: Final[Schema] = {"type": "array", "items": {"type": "integer"}}
QUEUE_HISTORY: Final[Schema] = {
    "type": "object", "required": ["rm", "partition", "queue", "kept", "times", "running", "resources"],
    "properties": {
        "rm": {"type": "string"}, "partition": {"type": "string"}, "queue": {"type": "string"},
        "kept": {"type": "boolean"}, "times": _NUMBERS, "running": _NUMBERS,
        "resources": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {
                    "type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}
                },
            },
        },
    },
}  # fmt: skip
DEVICE_HISTORY: Final[Schema] = {
    "type": "object", "required": ["rm", "partition", "kept", "times", "resources"],
    "properties": {
        name: of for name, of in QUEUE_HISTORY["properties"].items() if name not in ("queue", "running")
    },
}  # fmt: skip
_AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "integer"}}
LEDGER: Final[Schema] = {
    "type": "object", "required": ["rm", "since_ms", "until_ms", "by", "per", "zone", "begun_ms", "closed_ms", "rows"],
    "properties": {
        "rm": {"type": "string"}, "since_ms": {"type": "integer"}, "until_ms": {"type": "integer"},
        "by": {"type": "array", "items": {"type": "string"}}, "per": {"type": "string"}, "zone": {"type": "string"},
        "begun_ms": {"type": "integer"}, "closed_ms": {"type": "integer"}, "currency": {"type": "string"},
        "rows": {
            "type": "array",
            "items": {
                "type": "object", "required": ["from_ms", "until_ms", "tags", *KINDS],
                "properties": {
                    "from_ms": {"type": "integer"}, "until_ms": {"type": "integer"},
                    **{name: {"type": "string"} for name in ("partition", "queue", "user", "application")},
                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                    **dict.fromkeys(KINDS, _AMOUNTS),
                    "cost": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
        },
    },
}  # fmt: skip
_DESCRIPTORS: Final = {method.name: method for service in SERVICES for method in service.methods}


def of_method(method: Method, verb: str, in_path: Sequence[str]) -> Schema:
    """What the route of a method adds to the document."""
    request: Descriptor = method.request.DESCRIPTOR
    found: Schema = {"parameters": [_parameter(request, name, "path") for name in in_path]}
    if verb == "GET":
        found["parameters"] += _query(request, in_path)
    else:
        content = {"application/json": {"schema": {"$ref": f"{_REF}{request.name}"}}}
        if "text" in request.fields_by_name:
            content["application/yaml"] = {"schema": {"type": "string"}}
        found["requestBody"] = {"content": content, "required": False}
    answered = f"{_REF}{_DESCRIPTORS[method.name].output_type.name}"
    found["responses"] = answers({"$ref": answered}) if method.stream is None else streamed()
    if method.access is Access.ACT:
        found["responses"]["200"]["description"] = "Decided"
    return found


def answers(schema: Schema, kind: str = "application/json") -> Schema:
    return {
        "200": {"description": "The answer", "content": {kind: {"schema": schema}}},
        "304": {"description": "As the entity tag in If-None-Match"},
        "default": {
            "description": "A problem (RFC 9457)", "content": {problems.TYPE: {"schema": {"$ref": f"{_REF}{PROBLEM}"}}}
        },
    }  # fmt: skip


def also_csv(answers_as_json: Schema) -> Schema:
    content = {**answers_as_json["200"]["content"], "text/csv": {"schema": {"type": "string"}}}
    return {**answers_as_json, "200": {**answers_as_json["200"], "content": content}}


def streamed() -> Schema:
    return answers({"type": "string"}, "text/event-stream")


def of_rows(kind: str) -> Schema:
    """The page of rows of a query."""
    row: Schema = {"$ref": _ROW.format(name=ROWS[kind].__name__)}
    properties: Schema = {
        "rm": {"type": "string"}, "state": {"type": "string"}, "log_seq": {"type": "integer"},
        "at_ms": {"type": "integer"}, "rows": {"type": "array", "items": row},
        "next": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }  # fmt: skip
    return {"type": "object", "required": list(properties), "properties": properties}


_POOLS_CHANGE: Final[Schema] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"}, "path": {"type": "string"}, "delete": {"type": "boolean"},
        "set": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}  # fmt: skip
_POOLS_CHANGED: Final[Schema] = {
    "type": "object", "required": ["changes"],
    "properties": {"changes": {"type": "array", "items": {"type": "string"}}},
}  # fmt: skip


def of_pools_change() -> Schema:
    return {"requestBody": _body(_POOLS_CHANGE, required=False), "responses": answers(_POOLS_CHANGED)}


def of_pools_preview() -> Schema:
    of_text: Schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    return {"requestBody": _body(of_text, required=True), "responses": answers(OBJECT)}


def of_replay() -> Schema:
    of_text: Schema = {
        "type": "object", "required": ["text"], "properties": {"text": _TEXT, "since": _TEXT, "title": _TEXT},
    }  # fmt: skip
    return {"requestBody": _body(of_text, required=True), "responses": answers(REPLAY_ROW)}


def _body(fields: Schema, *, required: bool) -> Schema:
    """JSON, or the text alone as YAML."""
    content = {"application/json": {"schema": fields}, "application/yaml": {"schema": {"type": "string"}}}
    return {"content": content, "required": required}


def components() -> Schema:
    """The schemas that others refer to, by name."""
    models: list[type[BaseModel]] = []
    for method in _DESCRIPTORS.values():
        models.append(request_model(method.input_type))
        if method.name not in LISTS:
            models.append(answer_model(method.output_type))
    unique = {model.__name__: model for model in models}
    _, found = models_json_schema([(model, "validation") for model in unique.values()], ref_template=f"{_REF}{{model}}")
    _, rows = msgspec.json.schema_components([*ROWS.values(), Stats], ref_template=_ROW)
    named = {_ROW.format(name=name).removeprefix(_REF): schema for name, schema in rows.items()}
    return {PROBLEM: _PROBLEM_SCHEMA, **found["$defs"], **named}


def _query(request: Descriptor, in_path: Sequence[str]) -> list[Schema]:
    found = []
    for field in request.fields:
        if field.name == "page":
            found += [_parameter(field.message_type, one.name, "query") for one in field.message_type.fields]
        elif field.name not in in_path:
            found.append(_parameter(request, field.name, "query"))
    return found


def _parameter(message: Descriptor, name: str, where: str) -> Schema:
    model = request_model(message)
    properties: Mapping[str, Schema] = model.model_json_schema()["properties"]
    (schema, *_) = properties[name].get("anyOf", [properties[name]])
    if schema.get("type") == "string" and where == "query":
        schema = {**schema, "maxLength": limits.FILTER_CHARACTERS}
    return {"name": name, "in": where, "required": where == "path", "schema": schema}
