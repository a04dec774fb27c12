"""si.v1 as a text that people can read and `diff`: one line per field, enum value, reserved entry, option and method.

    python proto/tests/contract_table.py            prints the table of the generated code

Works on descriptors, so it says what the wire says; comments and the order in the file do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)


def table(file: FileDescriptorProto) -> list[str]:
    """The lines, messages and enums sorted by name, entries by number."""
    prefix = f".{file.package}."
    sections = [[f"file package={file.package} syntax={file.syntax} go_package={file.options.go_package}"]]
    sections += [[f"extend {e.extendee[1:]}", _field(e, {}, prefix)] for e in file.extension]
    sections += [_service(service, prefix) for service in file.service]
    described = [_enum(enum, "") for enum in file.enum_type]
    for message in file.message_type:
        described += _message(message, "", prefix)
    sections += sorted(described, key=lambda lines: lines[0].split()[1])
    return [line for section in sections for line in section]


def _message(message: DescriptorProto, scope: str, prefix: str) -> Iterator[list[str]]:
    name = scope + message.name
    maps = {f"{prefix}{name}.{m.name}": m for m in message.nested_type if m.options.map_entry}
    lines = [f"message {name}"]
    lines += [_field(f, maps, prefix) for f in sorted(message.field, key=lambda f: f.number)]
    # Ranges end before `end`.
    lines += [f"  reserved {n}" for r in message.reserved_range for n in range(r.start, r.end)]
    lines += [f'  reserved "{n}"' for n in sorted(message.reserved_name)]
    yield lines
    for enum in message.enum_type:
        yield _enum(enum, name + ".")
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message(nested, name + ".", prefix)


def _field(field: FieldDescriptorProto, maps: dict[str, DescriptorProto], prefix: str) -> str:
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        kind = f"map<{_type(key, prefix)}, {_type(value, prefix)}>"
    else:
        kind = ("repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else "") + _type(field, prefix)
    options = f" [{str(field.options).strip()}]" if str(field.options) else ""
    oneof = " (in a oneof)" if field.HasField("oneof_index") else ""
    return f"  {field.number:<4} {field.name:<28} {kind}{options}{oneof}"


def _type(field: FieldDescriptorProto, prefix: str) -> str:
    return (
        field.type_name.removeprefix(prefix) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    )


def _enum(enum: EnumDescriptorProto, scope: str) -> list[str]:
    return [
        f"enum {scope}{enum.name}",
        *(f"  {v.number:<4} {v.name}" for v in sorted(enum.value, key=lambda v: v.number)),
    ]


def _service(service: ServiceDescriptorProto, prefix: str) -> list[str]:
    def side(type_name: str, streaming: bool) -> str:
        return f"({'stream ' if streaming else ''}{type_name.removeprefix(prefix)})"

    return [f"service {service.name}"] + [
        f"  {m.name} {side(m.input_type, m.client_streaming)} returns {side(m.output_type, m.server_streaming)}"
        for m in service.method
    ]


if __name__ == "__main__":
    from remuda_proto.si.v1 import si_pb2

    generated = FileDescriptorProto()
    si_pb2.DESCRIPTOR.CopyToProto(generated)
    print("\n".join(table(generated)))
