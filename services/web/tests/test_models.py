"""Messages of the protos as JSON, and the table of paths."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from remuda_operations.operator_api.methods import methods
from remuda_operations.queries import rows
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_web.api_v1 import schemas
from remuda_web.api_v1.models import as_json, request_of
from remuda_web.api_v1.paths import LISTS, PATHS
from remuda_web.problems import Problem


def test_every_method_has_a_path() -> None:
    assert {path.method for path in PATHS} | LISTS == {method.name for method in methods()}


def test_messages_are_plain_json() -> None:
    message = admin.PendingAsk(application="a", pending=2**63)
    message.resource.resources["vcore"].value = 5
    shown = as_json(message)
    assert (shown["pending"], shown["resource"], shown["position"], shown["constraints"]) == (
        2**63, {"vcore": 5}, None, [],
    )  # fmt: skip
    assert shown.keys() == {field.name for field in message.DESCRIPTOR.fields}
    change = admin.FieldChange(before="[1]", after="")
    shown = as_json(admin.PreviewedChange(fields={"max": change}))
    assert shown["fields"] == {"max": {"before": [1], "after": None}}


@pytest.mark.parametrize(
    ("kind", "values", "field"),
    [
        (admin.ConfirmConfigurationRequest, {"version": "x"}, "version"),
        (admin.ConfirmConfigurationRequest, {"version": -1}, "version"),
        (admin.KillApplicationRequest, {"colour": "red"}, "colour"),
        (admin.KillApplicationRequest, {"options": {"force": "perhaps"}}, "options.force"),
        (admin.ReadChangesRequest, {"types": ["COLOUR"]}, "types.0"),
        (admin.ApplyConfigurationRequest, {"edits": [{"do": 1}]}, "edits.0.do"),
    ],
)
def test_a_problem_names_the_field(kind: Any, values: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        request_of(kind, values)
    assert (refused.value.status, refused.value.more["field"]) == (400, field)


def test_the_document_has_the_rows_of_queries_as_cores_send_them() -> None:
    found = schemas.components()
    assert list(found["QueueRow"]["properties"]) == [one.name for one in msgspec.structs.fields(rows.Queue)]
    assert {"$ref": "#/components/schemas/HoldRow"} in found["QueueRow"]["properties"]["held"]["anyOf"]
    for kind, row in rows.ROWS.items():
        items = schemas.of_rows(kind)["properties"]["rows"]["items"]
        assert items == {"$ref": f"#/components/schemas/{row.__name__}Row"}
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(found)))
    assert named <= set(found)
