"""The table of bounds names every field that an RM sends, and its helpers count bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_proto import bounds
from remuda_proto.si.v1 import si_pb2 as si

MESSAGES = {
    message.name: message
    for message in si.DESCRIPTOR.message_types_by_name.values()
    if message.name not in bounds.SENT_BY_SCHEDULER
}


def test_every_field_that_an_rm_sends_has_a_bound() -> None:
    fields = {f"{name}.{field.name}" for name, message in MESSAGES.items() for field in message.fields}
    assert fields == set(bounds.FIELDS)


def test_what_the_scheduler_sends_is_in_the_contract() -> None:
    assert set(si.DESCRIPTOR.message_types_by_name) >= bounds.SENT_BY_SCHEDULER


@pytest.mark.parametrize(("name", "bound"), bounds.FIELDS.items(), ids=list(bounds.FIELDS))
def test_the_kind_of_a_bound_is_that_of_its_field(name: str, bound: bounds.Bound) -> None:
    message, _, short = name.partition(".")
    field = MESSAGES[message].fields_by_name[short]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        values = field.message_type.fields_by_name["value"]
        expected: type[bounds.Bound] = bounds.TextMap if values.type == values.TYPE_STRING else bounds.Items
    elif field.is_repeated:
        expected = bounds.Texts if field.type == field.TYPE_STRING else bounds.Items
    elif field.message_type is not None:
        expected = bounds.Nested
    else:
        expected = {field.TYPE_STRING: bounds.Text, field.TYPE_BOOL: bounds.Flag, field.TYPE_ENUM: bounds.Choice}.get(
            field.type, bounds.Number
        )
    assert type(bound) is expected


texts = st.text(st.characters(codec="utf-8"), max_size=300)


@given(texts, st.integers(0, 1_000))
def test_lengths_are_bytes(text: str, most: int) -> None:
    size = len(text.encode())
    assert bounds.size_of(text) == size
    assert bounds.exceeds(text, most) == (size > most)
    short = bounds.shortened(text, most)
    assert len(short.encode()) <= most and text.startswith(short)
    assert short == text or len(text[: len(short) + 1].encode()) > most


@given(texts)
def test_what_a_reason_quotes_is_short(text: str) -> None:
    assert len(bounds.shown(text * 1_000).encode()) <= 12 * bounds.SHOWN_CHARACTERS
    assert bounds.shown(text) == repr(text) if len(text) <= bounds.SHOWN_CHARACTERS else True


def test_of_many_problems_some_are_told_and_how_many_there_are() -> None:
    assert bounds.joined(["a", "b"]) == "a; b"
    assert bounds.joined(map(str, range(12))).endswith("9; and 2 more")
