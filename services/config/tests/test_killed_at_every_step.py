"""The configuration service killed at each step of a change, and started again: a version is in force as a whole or not
at all, the history is complete, and the file has the text in force.

The steps are the calls of the bus, each before and after it had its effect, and those on the file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from remuda_bus.bus import Bus, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_config import load
from remuda_config.file_writer import PreparedFile
from remuda_config.shell import active_configuration, write_back
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.changes import Change
from remuda_config.versions import ROLLBACK
from services.config.tests.texts import queues
from tests.failing_bus import FailingBus

FOR_MS = 60_000
STEPS = 60


class Killed(Exception):
    """As if the process ended here: no code of the service catches it."""


class InProcess:
    """Instead of the pool of worker processes."""

    async def load(self, text: str, source: str, cpu_s: int = 0):
        return load(text, source)


class Steps:
    """Counts the steps on the file and ends the process at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = 0
        for module, name in ((write_back, "prepare"), (active_configuration, "read_file")):
            self._wrap(monkeypatch, module, name)
        self._wrap(monkeypatch, PreparedFile, "commit")
        self._wrap(monkeypatch, PreparedFile, "discard")

    def kill_at(self, number: int) -> None:
        self._left = number

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        call = getattr(owner, name)

        def stepped(*arguments):
            self._step()
            answer = call(*arguments)
            self._step()
            return answer

        monkeypatch.setattr(owner, name, stepped)

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed


def text(count: int) -> str:
    return queues(f"- {{name: a, maxapplications: {count}}}")


async def started(bus: Bus, file: Path) -> ActiveConfiguration:
    active = ActiveConfiguration(bus, file, InProcess())  # type: ignore[arg-type]
    await active.load()
    return active


async def update(active: ActiveConfiguration, file: Path) -> None:
    await active.update(text(2), Change("ann", "why", base=1))


async def rollback(active: ActiveConfiguration, file: Path) -> None:
    await active.update(text(2), Change("ann", "why", ROLLBACK, restores=1))


async def edit(active: ActiveConfiguration, file: Path) -> None:
    file.write_text(text(2))
    await active.refresh()


async def expire(active: ActiveConfiguration, file: Path) -> None:
    await active.end_stage()


@pytest.mark.parametrize("do", [update, rollback, edit])
@pytest.mark.parametrize("kind", ["before", "after", "file"])
async def test_a_change(tmp_path, monkeypatch, do, kind):
    steps = Steps(monkeypatch)
    for number in range(1, STEPS):
        bus, file = MemoryBus(), tmp_path / f"{number}.yaml"
        file.write_text(text(1))
        await started(bus, file)
        failing = FailingBus(bus, number + 1_000 if kind == "file" else number, Killed(), after=kind == "after")
        with contextlib.suppress(Killed):
            active = await started(failing, file)
            steps.kill_at(number if kind == "file" else 0)
            await do(active, file)
            steps.kill_at(0)
            break
        steps.kill_at(0)
        edited = do is edit and file.read_text() == text(2)
        again = await started(bus, file)
        assert again.current is not None
        assert file.read_text() == again.current.text, number
        assert again.current.text in (text(1), text(2))
        assert not edited or again.current.text == text(2)
        assert not again.problems
        found = [(one.number, one.origin) for one in await again.versions.history()]
        origin = {update: "api", rollback: "rollback", edit: "file"}[do]
        assert found == ([(1, "file")] if again.current.text == text(1) else [(2, origin), (1, "file")]), number
        assert [one.name for one in tmp_path.iterdir() if one.name.startswith(f".{file.name}")] == []
        # A later undo by hand is an edit, not content that is behind.
        other = text(1) if again.current.text == text(2) else text(2)
        file.write_text(other)
        assert await again.refresh()
        assert again.current.text == file.read_text() == other
    else:
        pytest.fail("the change has more steps than expected")
    assert number > 2


@pytest.mark.parametrize("kind", ["before", "after", "file"])
async def test_the_end_of_a_staged_change(tmp_path, monkeypatch, kind):
    steps = Steps(monkeypatch)
    clock = {"ms": 1_000_000}
    monkeypatch.setattr(active_configuration, "now_ms", lambda: clock["ms"])
    for number in range(1, STEPS):
        bus, file = MemoryBus(), tmp_path / f"{number}.yaml"
        file.write_text(text(1))
        staging = await started(bus, file)
        await staging.update(text(2), Change("ann", until_ms=clock["ms"] + FOR_MS))
        failing = FailingBus(bus, number + 1_000 if kind == "file" else number, Killed(), after=kind == "after")
        with contextlib.suppress(Killed):
            active = await started(failing, file)
            clock["ms"] += FOR_MS
            steps.kill_at(number if kind == "file" else 0)
            await expire(active, file)
            steps.kill_at(0)
            break
        steps.kill_at(0)
        clock["ms"] += FOR_MS
        again = await started(bus, file)
        assert again.current is not None
        assert again.current.text == file.read_text() == text(1), number
        assert [one.origin for one in await again.versions.history()] == ["expired", "api", "file"]
    else:
        pytest.fail("the change has more steps than expected")


@pytest.mark.parametrize("after", [False, True])
async def test_a_bus_that_does_not_answer(tmp_path, after):
    """Whether the change was made is then found out: the file and the history agree."""
    for number in range(1, STEPS):
        bus, file = MemoryBus(), tmp_path / f"{number}.yaml"
        file.write_text(text(1))
        await started(bus, file)
        failing = FailingBus(bus, number, Unanswered("no answer"), after=after)
        try:
            active = await started(failing, file)
        except Unanswered:
            continue
        answered = False
        with contextlib.suppress(Unanswered):
            answered = await active.update(text(2), Change("ann"))
        if not failing.failed:
            break
        await active.follow()
        await active.refresh()
        assert active.current is not None
        assert active.current.text == file.read_text(), number
        assert not answered or active.current.text == text(2)
    else:
        pytest.fail("the change has more steps than expected")
