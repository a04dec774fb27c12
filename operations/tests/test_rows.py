"""Rows of queries have the same fields in the JSON of cores and in the messages of the interface for operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from remuda_operations.operator_api.messages import RESOURCE
from remuda_operations.queries import rows
from remuda_proto.remuda.v1 import admin_pb2 as admin

# Rows and what is inside them -> fields that the messages do not have, and why.
NOT_IN_MESSAGES = {
    "Partition": {
        "allocations", "draining_since_ms",  # the metrics have them
        "node_sort", "resource_weights", "placement_rules",  # the configuration has them
        "preemption_enabled", "quota_preemption_enabled", "yunikorn_1_4",
    },
    "WhatIf": {"rm", "log_seq", "at_ms"},  # in the head
}  # fmt: skip
# Messages -> fields that are not of the row.
NOT_IN_ROWS = {"WhatIfResponse": {"head"}, "ChildTemplate": {"budget"}}  # the configuration has that
SHAPES = [
    (rows.Partition, admin.Partition), (rows.Queue, admin.Queue), (rows.Node, admin.Node),
    (rows.Application, admin.Application), (rows.Rejection, admin.Rejection), (rows.Allocation, admin.Allocation),
    (rows.Usage, admin.Usage), (rows.ExplainedAsk, admin.PendingAsk), (rows.WhatIf, admin.WhatIfResponse),
    (rows.TopologyPartition, admin.TopologyPartition), (rows.Domain, admin.Domain),
]  # fmt: skip
NUMBERS = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_UINT32)


@pytest.mark.parametrize(("row", "message"), SHAPES, ids=lambda one: one.__name__)
def test_rows_and_messages_have_the_same_fields(row: type[msgspec.Struct], message: Any) -> None:
    compare(row, message.DESCRIPTOR)


def compare(row: type[msgspec.Struct], message: Descriptor) -> None:
    fields = {field.encode_name: field for field in msgspec.inspect.type_info(row).fields}  # type: ignore[attr-defined]
    shared = set(fields) - NOT_IN_MESSAGES.get(row.__name__, set())
    assert shared == set(message.fields_by_name) - NOT_IN_ROWS.get(message.name, set()), (row, message.full_name)
    for name in shared:
        field = message.fields_by_name[name]
        (kind,) = kinds_of(fields[name].type)
        check(kind, field)


def kinds_of(kind: Any) -> Iterator[Any]:
    """The type without its wrappers and null."""
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from kinds_of(kind.type)
    elif isinstance(kind, msgspec.inspect.UnionType):
        yield from (one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    else:
        yield kind


def check(kind: Any, field: FieldDescriptor) -> None:
    of = field.message_type
    if of is RESOURCE or (of is not None and of.GetOptions().map_entry):
        assert isinstance(kind, msgspec.inspect.DictType), field.full_name
    elif field.is_repeated:
        assert isinstance(kind, msgspec.inspect.CollectionType | msgspec.inspect.ListType), field.full_name
        if of is not None:
            compare(kind.item_type.cls, of)  # type: ignore[attr-defined]
    elif of is not None:
        assert isinstance(kind, msgspec.inspect.StructType), field.full_name
        compare(kind.cls, of)
    elif field.cpp_type in NUMBERS:
        assert isinstance(kind, msgspec.inspect.IntType), field.full_name


def test_rows_of_older_cores_are_read() -> None:
    """They may lack every field but those that identify the object."""
    for kind, row in rows.ROWS.items():
        required = {one.encode_name for one in msgspec.structs.fields(row) if one.required}
        assert required <= {
            "path",
            "id",
            "name",
            "uuid",
            "key",
            "application",
            "kind",
            "operator",
            "action_id",
            "outcome",
        }, kind
        msgspec.convert({**dict.fromkeys(required, "x"), "of_a_newer_core": 1}, row)
