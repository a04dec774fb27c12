"""Settings of the service are defaults of configurations."""

from __future__ import annotations

from remuda_bus.settings import load as load_settings
from remuda_config.load import load
from remuda_config.shell.settings import ConfigSettings
from remuda_proto.remuda.v1 import config_pb2

QUEUES = """
partitions:
  - {name: own, preemption: {threshold: 0}, queues: [{name: a}]}
  - {name: open, queues: [{name: a}]}
"""


def completed(timing: dict[str, str], *assignments: str) -> config_pb2.Configuration:
    configuration = load(QUEUES)
    load_settings(ConfigSettings, None, assignments).settings.defaults().apply(configuration, timing)
    return configuration


def test_partitions_keep_their_own_threshold() -> None:
    by_name = {one.name: one.preemption_threshold for one in completed({}, "preemption.threshold=80").partitions}
    assert by_name == {"own": 0, "open": 80}
    assert {one.preemption_threshold for one in completed({}).partitions} == {0}


def test_rms_keep_their_own_times() -> None:
    assert not completed({}).HasField("timing")
    timing = completed(
        {"timing.completing": "1s"}, "timing.completing=5s", "timing.placeholder=1h", "preemption.interval=3s"
    ).timing
    assert (timing.completing_ms, timing.placeholder_ms, timing.preemption_attempt_ms) == (1_000, 3_600_000, 3_000)
