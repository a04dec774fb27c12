"""The log and snapshots as the core reads them: the messages of remuda.v1, in which resources and tags stay bytes. They
come in a few shapes and a thousandfold: `wire` reads each shape once, and then finds it in a table.

On the wire a message is the same as its bytes, and a map the same as the bytes of its entries, so this reads what the
classes of `log_pb2` and `snapshot_pb2` have written.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from remuda_proto.remuda.v1 import log_pb2, snapshot_pb2
from remuda_proto.si.v1 import si_pb2 as si

RESOURCE: Final = f".{si.Resource.DESCRIPTOR.full_name}"
TEXT, BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
FILES: Final = {file.name for file in (si.DESCRIPTOR, log_pb2.DESCRIPTOR, snapshot_pb2.DESCRIPTOR)}


def _add(pool: DescriptorPool, file: FileDescriptor) -> None:
    """After what it imports."""
    for imported in file.dependencies:
        _add(pool, imported)
    written = FileDescriptorProto()
    file.CopyToProto(written)
    if file.name in FILES:  # a configuration is read as it is
        for message in written.message_type:
            _leave_bytes(message, f".{written.package}.{message.name}")
    pool.Add(written)


def _leave_bytes(message: DescriptorProto, name: str) -> None:
    """In the fields that are resources, and in those that are tags: maps from text to text."""
    tags = {f"{name}.{entry.name}" for entry in message.nested_type if entry.field[-1].type == TEXT}
    for field in message.field:
        if field.type_name == RESOURCE or field.type_name in tags:
            field.type = BYTES
            field.ClearField("type_name")


def _class(of: type[Any]) -> Any:
    return GetMessageClass(_pool.FindMessageTypeByName(of.DESCRIPTOR.full_name))


_pool = DescriptorPool()
_add(_pool, snapshot_pb2.DESCRIPTOR)
Commit: Final[type[log_pb2.Commit]] = _class(log_pb2.Commit)
Fact: Final[type[log_pb2.Fact]] = _class(log_pb2.Fact)
Snapshot: Final[type[snapshot_pb2.Snapshot]] = _class(snapshot_pb2.Snapshot)
