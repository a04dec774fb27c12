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


def _object(optional: Sequence[str] = (), /, **fields: Any) -> Schema:
    """An object with these fields, each a type or a schema. `optional`: those that may be missing."""
    of = {name: one if isinstance(one, dict) else msgspec.json.schema(one) for name, one in fields.items()}
    required = [name for name in of if name not in optional]
    return {"type": "object", **({"required": required} if required else {}), "properties": of}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_PROBLEM_SCHEMA: Final = _object(
    ("field", "value", "expected", "problems"),
    type=str, title=str, status=int, detail=str, field=str, value=str, expected=str, problems=list[dict[str, Any]],
)  # fmt: skip
OBJECT: Final[Schema] = {"type": "object"}
STATS: Final[Schema] = {"$ref": _ROW.format(name=Stats.__name__)}
RMS: Final = _object(rms=list[str])
ME: Final = _object(operator=str | None, groups=list[str], reads_all=bool)
WELCOME: Final = _object(nats=str, keys=bool)
OVERVIEW: Final = _object(at_ms=int, **dict.fromkeys(("rms", "attention", "changes"), list[dict[str, Any]]))
PAST: Final = _object(rm=str, since_ms=int, until_ms=int, first_seq=int, last_seq=int)
REPLAY_ROW: Final = _object(
    id=str, title=str, since=str, at_ms=int, problem=str,
    state={"type": "string", "enum": ["running", "done", "failed"]},
)  # fmt: skip
REPLAYS: Final = _object(replays=_list(REPLAY_ROW))
# `report`: docs/history.md; null while it runs.
REPLAY: Final = _object(**REPLAY_ROW["properties"], report=dict[str, Any] | None)
DEVICE_HISTORY: Final = _object(
    rm=str, partition=str, kept=bool, times=list[int], resources=dict[str, dict[str, list[int | None]]]
)
QUEUE_HISTORY: Final = _object(**DEVICE_HISTORY["properties"], queue=str, running=list[int])
_LEDGER_ROW: Final = _object(
    ("partition", "queue", "user", "application", "cost"),
    from_ms=int, until_ms=int, partition=str, queue=str, user=str, application=str, tags=dict[str, str],
    **dict.fromkeys(KINDS, dict[str, int]), cost=dict[str, str],
)  # fmt: skip
LEDGER: Final = _object(
    ("currency",),
    rm=str, since_ms=int, until_ms=int, by=list[str], per=str, zone=str, begun_ms=int, closed_ms=int, currency=str,
    rows=_list(_LEDGER_ROW),
)  # fmt: skip
_DESCRIPTORS: Final = {method.name: method for service in SERVICES for method in service.methods}


def of_method(method: Method, verb: str, in_path: Sequence[str]) -> Schema:
    """The parameters, request body and responses that the route of a method adds to the document."""
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
    rows = _list({"$ref": _ROW.format(name=ROWS[kind].__name__)})
    return _object(rm=str, state=str, log_seq=int, at_ms=int, rows=rows, next=str | None)


def of_pools_change() -> Schema:
    change = _object(("text", "path", "delete", "set"), text=str, path=str, delete=bool, set=dict[str, str])
    return {"requestBody": _body(change, required=False), "responses": answers(_object(changes=list[str]))}


def of_pools_preview() -> Schema:
    return {"requestBody": _body(_object(text=str), required=True), "responses": answers(OBJECT)}


def of_replay() -> Schema:
    asked = _object(("since", "title"), text=str, since=str, title=str)
    return {"requestBody": _body(asked, required=True), "responses": answers(REPLAY_ROW)}


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
