"""The fuzzer repeats itself, and can fail: with a bug put into rmproxy it says so. `make fuzz` is the fuzzer itself."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from remuda.local.system import NATS
from remuda_proto.si.v1 import si_pb2 as si
from tests.tenants import FAULTS

from . import fuzz as fuzzing
from .fuzz import fuzz, grows
from .hostile_grpc import peloton_methods
from .messages import Maker


def made(seed: int) -> list[bytes]:
    maker = Maker(Random(seed), "rm-1")
    kinds = (si.NodeRequest, si.ApplicationRequest, si.AllocationRequest, si.RegisterResourceManagerRequest)
    payloads = []
    for _ in range(50):
        for kind in kinds:
            message = maker.wrong(maker.sensible(kind()), 2)
            payloads.append(message.SerializeToString(deterministic=True))
            payloads.append(maker.scrambled(b"some bytes"))
    return payloads


def test_a_seed_makes_the_same_messages() -> None:
    assert made(1) == made(1)
    assert made(1) != made(2)


@pytest.mark.parametrize("method", peloton_methods(), ids=lambda one: one.name)
def test_every_message_of_peloton_can_be_made(method: MethodDescriptor) -> None:
    if method.input_type.fields:
        for seed in range(20):
            maker, message = Maker(Random(seed), "rm-1"), GetMessageClass(method.input_type)()
            maker.wrong(maker.sensible(message), 3)


def test_memory_that_goes_on_to_grow_is_noticed() -> None:
    def grown(mb_per_s: float, name: str = "core") -> list[str]:
        return grows([(float(second), {name: 60 + mb_per_s * second}) for second in range(61)])

    assert not grown(1.0)
    assert grown(4.5) == ["memory of core goes on to grow by 4.5 MB/s"]
    assert "memory of core grew by 600 MB" in grown(10.0)
    assert not grown(5.0, NATS)
    assert grown(13.0, NATS) == ["memory of nats-server goes on to grow by 13.0 MB/s"]


def test_memory_that_is_taken_at_once_does_not_go_on_to_grow() -> None:
    assert not grows([(float(second), {NATS: 60.0 if second < 15 else 700.0}) for second in range(61)])


async def test_a_process_that_ends_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{FAULTS}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("REMUDA_TEST_FAULT", "crash")
    monkeypatch.setattr(fuzzing, "SETTLED_WITHIN_S", 3.0)  # with this bug nothing settles
    report = await fuzz(tmp_path, seconds=5, seed=1)
    assert any(problem.startswith("rmproxy") and "has ended" in problem for problem in report.problems), report.problems
