"""Log levels of a running process: changed over the bus, and reset by themselves."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remuda_bus import subjects, tracing
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_replication.process.logs import LOG_FILTER, OWN, LogLevels, add_trace_id, set_log_level

log = structlog.get_logger()


@pytest.fixture(autouse=True)
def _configuration() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(processors=[LOG_FILTER, add_trace_id, *before["processors"]])
    LOG_FILTER.set_own(logging.INFO)
    yield
    LOG_FILTER.set_own(logging.INFO)
    structlog.configure(**before)
    logging.getLogger("some.library").setLevel(logging.NOTSET)


async def ask(bus: MemoryBus, **request: Any) -> dict[str, Any]:
    return json.loads((await bus.request(subjects.log_level("core"), json.dumps(request).encode())).payload)


def lines(capsys: pytest.CaptureFixture[str]) -> str:
    log.debug("one line")
    return capsys.readouterr().out


async def test_a_level_is_changed_and_reset(capsys: pytest.CaptureFixture[str]) -> None:
    bus = MemoryBus()
    await LogLevels("core-1").serve(bus, "core")
    assert "one line" not in lines(capsys)
    answer = await ask(bus, level="debug", for_s=0.05)
    assert answer == {"instance": "core-1", "logger": "", "level": "debug", "for_s": 0.05}
    assert "one line" in lines(capsys)
    async with asyncio.timeout(5):
        while "one line" in lines(capsys):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_a_later_change_counts_and_libraries_have_their_own() -> None:
    levels = LogLevels("core-1")
    levels.change("some.library", "debug", 0.02)
    levels.change("some.library", "error", 60)
    await asyncio.sleep(0.05)  # the first change would have ended
    assert logging.getLogger("some.library").level == logging.ERROR
    levels._resets["some.library"].cancel()
    levels._reset("some.library")
    assert logging.getLogger("some.library").level == logging.NOTSET


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function of the module remuda_made.up.below that logs at debug and info."""
    made = ModuleType("remuda_made.up.below")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    code = "import structlog\nlog = structlog.get_logger()\ndef say():\n    log.debug('fine'); log.info('coarse')\n"
    exec(code, vars(made))
    say: Callable[[], None] = made.say
    return say


async def test_the_level_of_a_module(module: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    """It counts for what is below it, and for nothing else."""
    levels = LogLevels("core-1")
    levels.change("remuda_made.up", "debug", 60)
    module()
    assert "fine" in capsys.readouterr().out
    assert "one line" not in lines(capsys), "of another module"
    levels.change("remuda_made", "error", 60)
    levels.change("remuda_made.up", "warning", 60)
    module()
    said = capsys.readouterr().out
    assert "fine" not in said and "coarse" not in said
    for name in ("remuda_made.up", "remuda_made"):
        levels._resets[name].cancel()
        levels._reset(name)
    module()
    said = capsys.readouterr().out
    assert "coarse" in said and "fine" not in said
    with pytest.raises(Refused, match="this process has no module 'remuda_made.upper'"):
        levels.change("remuda_made.upper", "debug", 60)


def test_a_line_names_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    tracing.setup_for_test(InMemorySpanExporter(), "test")
    try:
        with tracing.span("around") as span, tracing.span("within", span.headers()):
            log.info("inside")
        log.info("outside")
    finally:
        tracing.shutdown()
    inside, outside = capsys.readouterr().out.splitlines()
    assert span.headers()[subjects.TRACEPARENT].split("-")[1] in inside
    assert "trace_id" not in outside


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"level": "loud", "for_s": 1}, "level is 'loud'"),
        ({"level": "debug", "for_s": 0}, "for_s is 0"),
        ({"level": "debug", "for_s": True}, "for_s is True"),
        ({"level": "debug", "for_s": 1e9}, "for_s is 1000000000.0"),
        ({"level": "debug", "for_s": 1, "logger": 7}, "logger is 7"),
    ],
)
async def test_what_cannot_be_is_refused(request_: dict[str, Any], said: str) -> None:
    bus = MemoryBus()
    await LogLevels("core-1").serve(bus, "core")
    with pytest.raises(Refused, match=said):
        await ask(bus, **request_)


async def test_level_of_the_process_waits_for_the_end_of_a_change() -> None:
    """It counts at once, unless somebody has changed the level for a while."""
    set_log_level("error")
    assert LOG_FILTER.own == logging.ERROR
    LogLevels("core-1").change(OWN, "debug", 0.01)
    set_log_level("warning")
    assert LOG_FILTER.own == logging.DEBUG
    async with asyncio.timeout(5):
        while LOG_FILTER.own != logging.WARNING:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    set_log_level("info")
    assert LOG_FILTER.own == logging.INFO
