"""Every field of si.v1, marked as a secret in a copy of the contract, is hidden, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass

from remuda_proto.secret_fields import HIDDEN, has_secrets, is_secret, redacted
from remuda_proto.si.v1 import si_pb2 as si

SECRET = "pssst"
TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
FIELDS = [
    (kind.name, field.name)
    for kind in si.DESCRIPTOR.message_types_by_name.values()
    for field in kind.fields
    if field.type in (*TEXTS, FieldDescriptor.TYPE_MESSAGE)
]


def marked(message: str, field: str) -> DescriptorPool:
    """The contract with this field marked as a secret."""
    pool = DescriptorPool()
    option = descriptor_pb2.FileDescriptorProto()
    descriptor_pb2.DESCRIPTOR.CopyToProto(option)
    pool.Add(option)
    contract = descriptor_pb2.FileDescriptorProto()
    si.DESCRIPTOR.CopyToProto(contract)
    for kind in contract.message_type:
        for declared in kind.field:
            if (kind.name, declared.name) == (message, field):
                declared.options.Extensions[si.si_secret] = True
    pool.Add(contract)
    return pool


def filled(kind: Descriptor, name: str, inside: bool = False, deep: int = 0) -> Any:
    """A message with a text in every field; the texts of the field `name` are secret."""
    message = GetMessageClass(kind)()
    for field in kind.fields:
        secret = inside or (field.name == name and deep == 0)
        _fill(message, field, SECRET if secret else "open", name, secret, deep)
    return message


def _fill(message: Any, field: FieldDescriptor, text: str, name: str, secret: bool, deep: int) -> None:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING:
            value[text] = text
        return
    if field.message_type is not None:
        if deep < 4:
            inner = filled(field.message_type, name, secret, deep + 1)
            value.CopyFrom(inner) if hasattr(value, "CopyFrom") and not hasattr(value, "add") else value.append(inner)
    elif field.type == FieldDescriptor.TYPE_STRING:
        setattr(message, field.name, text) if isinstance(value, str) else value.append(text)


@pytest.mark.parametrize(("message", "field"), FIELDS)
def test_a_marked_field_is_hidden_and_no_other(message: str, field: str) -> None:
    kind = marked(message, field).FindMessageTypeByName(f"si.v1.{message}")
    assert is_secret(kind.fields_by_name[field])
    sent = filled(kind, field)
    shown = redacted(sent)
    assert SECRET not in MessageToJson(shown) and SECRET.encode() not in shown.SerializeToString()
    sent.ClearField(field)
    shown.ClearField(field)
    assert shown == sent


def test_a_secret_inside_of_other_messages_is_hidden() -> None:
    pool = marked("AddApplicationRequest", "queueName")
    request: Any = GetMessageClass(pool.FindMessageTypeByName("si.v1.ApplicationRequest"))()
    request.new.add(applicationID="app-1", queueName=SECRET)
    shown = redacted(request)
    assert (shown.new[0].applicationID, shown.new[0].queueName) == ("app-1", HIDDEN)
    assert request.new[0].queueName == SECRET, "the message itself stays"
    other: Any = GetMessageClass(pool.FindMessageTypeByName("si.v1.NodeRequest"))(rmID="rm")
    assert redacted(other) is other


def test_messages_without_secrets_are_not_copied() -> None:
    request = si.NodeRequest(rmID="rm-1")
    assert redacted(request) is request and not has_secrets(si.NodeRequest.DESCRIPTOR)
