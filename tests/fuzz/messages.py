"""Messages of `si.v1` out of a seed, driven by their descriptors: sensible ones, ones with something wrong in them, and
bytes that were messages once."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Field = Any  # a FieldDescriptor; the stubs know two of them

INTEGERS = (0, 1, -1, 2, 7, 1_000, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
SMALL = 40  # names of each kind that a hostile RM uses
MANY = (0, 1, 2, 100, 3_000)  # items of a list
LENGTHS = (0, 1, 100, 1_025, 70_000, 1_000_000)  # of texts
ALPHABETS = ("a", "\x00", "\x01", "!", "'", "\\", ".", "é", "😀", " ", "\n", "*", ">", "[", "{", "(a|a)+")
WORDS = (
    "", "root", "root.a", "root.a.b", "root..a", ".", "*", ">", "default", "[side]default", "[x]default", "[rm", "]",
    "true", "-1", "9" * 5_000, "NaN", "1e400", "root." + "a." * 200, "$G", "si.v1.rm.side.node", "../..", "%s%n",
    "\ud7ff", "null",
)  # fmt: skip
VALUES = {
    "queueName": ("root.a", "root.a", "root.b", "root.users.x"),
    "partitionName": ("", "", "", "default"),
    "user": ("ann", "bob"),
    "groups": ("staff", "all"),
    "gangSchedulingStyle": ("Hard", "Soft", "odd"),
    "taskGroupName": ("tg", ""),
    "terminationType": (1, 1, 2, 3, 4),
    "action": (1, 1, 1, 2, 3, 4, 5, 6),
    "maxAllocations": (1, 1, 2, 50),
    "priority": (0, 0, 1, -5),
    "executionTimeoutMilliSeconds": (0, 0, 500, 5_000),
    "placeholder": (False, False, False, True),
    "resync": ("report", "replay"),
}
PREFIXES = {"applicationID": "app", "allocationKey": "key", "nodeID": "node", "UUID": "uuid"}
RESOURCES = ("vcore", "memory", "vcore", "memory", "gpu", "disk")


class Maker:
    """Of one RM. `known`: names that came back from the scheduler, by field."""

    def __init__(
        self, random: Random, rm_id: str, lengths: tuple[int, ...] = LENGTHS, many: tuple[int, ...] = MANY
    ) -> None:
        self.random = random
        self._lengths = lengths
        self._many = many
        self.rm_id = rm_id
        self.known: dict[str, list[str]] = {"UUID": []}

    def sensible(self, message: Message, items: int = 3) -> Message:
        """Fills it with what an RM might say."""
        for field in message.DESCRIPTOR.fields:
            if is_map(field):
                self._fill_map(message, field)
            elif field.is_repeated:
                for _ in range(self.random.randint(0, items)):
                    self._add(message, field)
            elif field.message_type is not None:
                if self.random.random() < 0.7:
                    self.sensible(getattr(message, field.name), items)
            else:
                with suppress(ValueError, TypeError):
                    setattr(message, field.name, self._value(field))
        return message

    def wrong(self, message: Message, times: int = 1) -> Message:
        """Give some field of it an unexpected value."""
        for _ in range(times):
            owner, field = self._somewhere(message)
            self._spoil(owner, field)
        return message

    def scrambled(self, payload: bytes) -> bytes:
        random, raw = self.random, bytearray(payload)
        for _ in range(random.randint(1, 8)):
            at = random.randrange(len(raw) + 1)
            match random.randrange(5):
                case 0:
                    raw[at : at + 1] = random.randbytes(1)
                case 1:
                    raw[at:at] = random.randbytes(random.randint(1, 20))
                case 2:
                    del raw[at : at + random.randint(1, 50)]
                case 3:
                    raw[at:at] = raw[: random.randint(0, 200)]
                case 4:
                    raw[at:at] = b"\xff" * random.randint(1, 12)
        return bytes(raw)

    def text(self) -> str:
        """An unexpected name."""
        if self.random.random() < 0.6:
            return self.random.choice(WORDS)
        return self.random.choice(ALPHABETS) * self.random.choice(self._lengths)

    def _value(self, field: Field) -> Any:
        random = self.random
        if field.name == "rmID":
            return self.rm_id
        if field.name in VALUES:
            return random.choice(VALUES[field.name])
        if field.name in PREFIXES:
            known = self.known.get(field.name)
            if known and random.random() < 0.7:
                return random.choice(known)
            return f"{PREFIXES[field.name]}-{random.randrange(SMALL)}"
        if field.enum_type is not None:
            return random.choice([one.number for one in field.enum_type.values_by_number.values()])
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return random.random() < 0.2
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return f"{field.name}-{random.randrange(SMALL)}"
        return random.randrange(100)

    def _fill_map(self, message: Message, field: Field) -> None:
        entries = getattr(message, field.name)
        value = value_of(field)
        for _ in range(self.random.randint(0, 2)):
            if value.message_type is not None:
                entries[self.random.choice(RESOURCES)].value = self.random.choice((1, 1, 2, 10, 1_000))
            elif value.cpp_type != FieldDescriptor.CPPTYPE_STRING:
                entries[self.random.choice(RESOURCES)] = self.random.choice((1, 1, 2, 10, 1_000))
            else:
                entries[f"tag-{self.random.randrange(SMALL)}"] = f"value-{self.random.randrange(SMALL)}"

    def _add(self, message: Message, field: Field) -> None:
        if field.message_type is not None:
            self.sensible(getattr(message, field.name).add(), items=1)
        else:
            with suppress(ValueError, TypeError):  # not of a closed enumeration, unsigned, or bytes
                getattr(message, field.name).append(self._value(field))

    def _somewhere(self, message: Message) -> tuple[Message, Field]:
        """A field of it, or of a message in it."""
        field: Field = self.random.choice(message.DESCRIPTOR.fields)
        if field.name == "rmID" and self.random.random() < 0.8:  # a wrong one hides whatever else is wrong
            return self._somewhere(message)
        if field.message_type is None or is_map(field) or self.random.random() < 0.2 or not field.message_type.fields:
            return message, field
        if not field.is_repeated:
            return self._somewhere(getattr(message, field.name))
        if not getattr(message, field.name):
            self._add(message, field)
        return self._somewhere(self.random.choice(getattr(message, field.name)))

    def _spoil(self, message: Message, field: Field) -> None:
        random, count = self.random, self.random.choice(self._many)
        if is_map(field):
            entries = getattr(message, field.name)
            value = value_of(field)
            for number in range(count):
                if value.message_type is not None:
                    entries[f"r-{number}"].value = random.choice(INTEGERS)
                else:
                    of_text = value.cpp_type == FieldDescriptor.CPPTYPE_STRING
                    entries[f"t-{number}"] = "v" if of_text else self._extreme(value)
            if value.message_type is None:
                entries[self.text()] = self._extreme(value)
            else:
                entries[self.text()].value = random.choice(INTEGERS)
        elif field.is_repeated:
            for _ in range(count):
                self._add(message, field)
        elif field.message_type is not None:
            message.ClearField(field.name)
        else:
            with suppress(ValueError, TypeError):
                setattr(message, field.name, self._extreme(field))

    def _extreme(self, field: Field) -> Any:
        random = self.random
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return self.text()
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return random.random() < 0.5
        if field.enum_type is not None or field.cpp_type == FieldDescriptor.CPPTYPE_INT32:
            return random.choice([one for one in INTEGERS if -(2**31) <= one < 2**31] + [9, 99])
        if field.cpp_type == FieldDescriptor.CPPTYPE_UINT32:
            return random.choice([one for one in INTEGERS if 0 <= one < 2**32])
        if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
            return random.choice([one for one in INTEGERS if one >= 0] + [2**64 - 1])
        return random.choice(INTEGERS)


def is_map(field: Field) -> bool:
    of = field.message_type
    return of is not None and bool(of.GetOptions().map_entry)


def value_of(field: Field) -> Field:
    """Of a map."""
    return field.message_type.fields_by_name["value"]
