"""The workloads of `remuda load`: a synthetic load and a recorded trace, behind one protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from remuda_bus.bus import Bus

from ...errors import UserError
from ..driver import Driver
from ..rm_state import RmState, RunningAllocation
from . import openb, replay, synthetic
from .samples import Samples
from .trace import DAY_S, steps

TOGETHER_S = 0.1  # with a speed: what is sent together is at most this far apart, real seconds
FAST_TOGETHER_S = 3_600.0  # without: trace seconds


class Workload(Protocol):
    """A workload that `remuda load` submits.

    `total` asks in all; `departed`: by reason, how many were taken back because they waited in vain; `notes`: what a
    reader of the report has to know. `config`: the text of a queues.yaml; empty: that of the scheduler.
    """

    title: str
    config: str
    total: int
    unit: str
    samples: Samples
    departed: Counter[str]
    notes: Sequence[str]

    def placed(self, new: list[RunningAllocation]) -> None: ...

    async def run(self, driver: Driver, bus: Bus, /) -> None:
        """Returns when it is over; raises NoAnswer when the scheduler does not answer any more."""
        ...

    def progress(self, rm_state: RmState) -> tuple[int, str]:
        """Returns how many of `total` are through, and where the workload is, in a word."""
        ...


class TraceWorkload:
    """Reads both files at once, so that their errors are reported before anything is started."""

    unit = "days"

    def __init__(self, nodes: Path, pods: Path, speed: float | None, queue: str, devices: bool) -> None:
        self.config = "" if queue else replay.DEVICES_CONFIG if devices else replay.CONFIG
        self._queue = queue or replay.QUEUE
        self._nodes, self._pods = openb.read_nodes(nodes), openb.read_pods(pods)
        self._steps = steps(self._pods, FAST_TOGETHER_S if speed is None else TOGETHER_S * speed)
        self._speed = speed
        choosy = sum(bool(pod.gpu_spec) for pod in self._pods)
        self.notes: Sequence[str] = (
            [f"{choosy:,} pods ask for certain GPU models; the replay ignores that"] if choosy else []
        )
        seconds = self._steps[-1].time - min(pod.created for pod in self._pods)
        span = f"{seconds / DAY_S:.0f} days" if seconds >= 2 * DAY_S else f"{seconds / 60:,.0f} minutes"
        self.title = f"{pods.name}: {len(self._nodes):,} nodes, {len(self._pods):,} pods over {span}"
        if devices:
            self.title += f", {sum(node.gpus for node in self._nodes):,} GPUs as devices"
        self.total = len(self._pods)
        self.samples = Samples()
        self.departed: Counter[str] = Counter()
        self._replay: replay.Replay | None = None

    def placed(self, new: list[RunningAllocation]) -> None:
        """Does nothing: the trace has the time at which a pod ends."""

    async def run(self, driver: Driver, bus: Bus) -> None:
        self._replay = replay.Replay(
            driver, bus, self._nodes, self._pods, self._speed, self.samples, self.departed, self._queue
        )
        await self._replay.prepare()
        await self._replay.run(self._steps)

    def progress(self, rm_state: RmState) -> tuple[int, str]:
        if self._replay is None:
            return 0, ""
        return (
            self._replay.done,
            f"day {self._replay.time / DAY_S:.0f}, {len(rm_state.running):,} run, {len(rm_state.waiting):,} wait",
        )


def workload(
    nodes: int, apps: int, asks: int, rate: float | None, duration_s: float | None,
    trace: tuple[str, Path, Path] | None, speed: float | None, queue: str = "", devices: bool = False,
) -> Workload:  # fmt: skip
    """The workload that the options describe. `queue` is a leaf queue of the scheduler's configuration; if it is empty,
    the workload brings a configuration with one queue. `devices`: GPUs of a trace are devices there."""
    if devices and queue:
        raise UserError("--devices is for the load's own configuration; that of --queue says what stands on devices")
    if trace is None:
        for option, given in (("--speed", speed is not None), ("--devices", devices)):
            if given:
                raise UserError(f"{option} belongs to --trace")
        return synthetic.Synthetic(nodes, apps, asks, rate, duration_s, queue)
    if trace[0] != "openb":
        raise UserError(f"--trace {trace[0]}: unknown format: expected openb NODES.csv PODS.csv")
    return TraceWorkload(trace[1], trace[2], speed, queue, devices)
