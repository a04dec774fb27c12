"""Answers have a share of a process's time, and who does not get a turn is told at once."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus.bus import Refused
from remuda_core import limits
from remuda_core.shell.answer_pace import AnswerPace


async def answer(pace: AnswerPace, now: list[float], takes_s: float) -> None:
    async with pace.turn():
        with pace.spending():
            now[0] += takes_s


async def test_answers_wait_once_their_share_of_the_time_is_spent() -> None:
    now = [100.0]
    pace = AnswerPace(lambda: now[0], lambda: now[0])
    now[0] += 1.0  # no questions for a while are no credit beyond the burst
    await answer(pace, now, limits.ANSWER_BURST_S * limits.ANSWER_SHARE / 2)
    await answer(pace, now, limits.ANSWER_BURST_S)
    late = asyncio.create_task(answer(pace, now, 0.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not late.done()
    now[0] += 1.0
    async with asyncio.timeout(5):
        await late


async def test_questions_beyond_the_bound_are_refused_at_once() -> None:
    pace = AnswerPace(lambda: 0.0)
    release = asyncio.Event()

    async def slow() -> None:
        async with pace.turn():
            await release.wait()

    asked = [asyncio.create_task(slow()) for _ in range(limits.QUESTIONS_WAITING + limits.ANSWERED_AT_ONCE)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="200 questions wait for this core, try again") as refusal:
        async with pace.turn():
            pass
    assert refusal.value.code == 503
    asked.pop().cancel()  # a cancelled one leaves its place
    await asyncio.sleep(0)
    asked.append(asyncio.create_task(slow()))
    release.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*asked)
    async with pace.turn():
        pass
