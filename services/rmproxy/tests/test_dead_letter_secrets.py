"""Secrets of a request reach neither its dead letter nor the log."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from proto.tests.test_secret_fields import SECRET, filled, marked
from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_rmproxy.inbound import dead_letters
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.records.registry import RmRegistry

KINDS = ["application", "allocation", "node", "configuration"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("readable", [True, False])
async def test_dead_letters_hold_no_secrets(monkeypatch: pytest.MonkeyPatch, kind: str, readable: bool) -> None:
    name = dead_letters.REQUESTS[kind].DESCRIPTOR.name
    secret = filled(marked(name, "rmID").FindMessageTypeByName(f"si.v1.{name}"), "rmID")
    monkeypatch.setitem(dead_letters.REQUESTS, kind, type(secret))
    payload = secret.SerializeToString() + (b"" if readable else b"\xff")
    assert SECRET.encode() in payload
    bus = MemoryBus()
    with capture_logs() as lines:
        letters = DeadLetters(bus, RmRegistry())
        await letters.write(Message(subjects.request("rm-1", kind), payload, {}, 1), "rm-1", "bad", {})
    letter = await bus.last_message(subjects.DEAD_LETTERS.name, subjects.dead_letter("rm-1"))
    callback = await bus.last_message(subjects.CALLBACKS.name, subjects.callback("rm-1", "dead_letter"))
    assert letter is not None and callback is not None
    for shown in (letter.payload, str(letter.headers).encode(), callback.payload, str(lines).encode()):
        assert SECRET.encode() not in shown
    assert bool(letter.payload) == readable
    await bus.close()
