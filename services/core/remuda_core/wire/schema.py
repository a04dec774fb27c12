"""Message classes with which the core reads the log and snapshots: those of remuda.v1, except that resources and tags
are bytes. The same few resources and tags occur in thousands of messages; `resources` reads each of them once.

In the encoding an embedded message looks the same as its bytes, and a map the same as the bytes of its entries. So
these classes read what the classes of `log_pb2` and `snapshot_pb2` have written.
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
    """Add a file after those that it imports."""
    for imported in file.dependencies:
        _add(pool, imported)
    written = FileDescriptorProto()
    file.CopyToProto(written)
    if file.name in FILES:  # messages of other files stay as they are
        for message in written.message_type:
            _leave_bytes(message, f".{written.package}.{message.name}")
    pool.Add(written)


def _leave_bytes(message: DescriptorProto, name: str) -> None:
    """Make bytes of all fields that are resources or tags (maps from text to text)."""
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
