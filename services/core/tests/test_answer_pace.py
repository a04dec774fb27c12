"""Answers have a share of a process's time, and who does not get a turn is told at once."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus.bus import Refused
from remuda_core import limits
from remuda_core.shell.answer_pace import AnswerPace

RM, OTHER = "rm-1", "rm-2"


async def answer(pace: AnswerPace, now: list[float], takes_s: float, rm_id: str = RM) -> None:
    with pace.asked(rm_id) as questions:
        async with questions.turn() as turn:
            with turn.spending():
                now[0] += takes_s


async def test_answers_wait_once_their_share_of_the_time_is_spent() -> None:
    now = [100.0]
    pace = AnswerPace(lambda: now[0], lambda: now[0])
    now[0] += 1.0  # no questions for a while are no credit beyond the burst
    await answer(pace, now, limits.ANSWER_BURST_S * limits.ANSWER_SHARE / 2)
    await answer(pace, now, limits.ANSWER_BURST_S)
    late = [asyncio.create_task(answer(pace, now, 0.0, rm_id)) for rm_id in (RM, OTHER)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(one.done() for one in late), "the share is of all RMs together"
    now[0] += 1.0
    async with asyncio.timeout(5):
        await asyncio.gather(*late)


async def test_the_loop_serves_all_else_between_two_answers() -> None:
    """Also on a busy machine, where so much time goes by for each answer that the share is never spent."""
    spent_s, served = 0.0, [0]
    pace = AnswerPace(lambda: 2 * spent_s / limits.ANSWER_SHARE, lambda: spent_s)
    rounds: list[int] = []

    async def asked() -> None:
        nonlocal spent_s
        with pace.asked(RM) as questions:
            async with questions.turn() as turn:
                with turn.spending():
                    spent_s += limits.ANSWER_BURST_S * limits.ANSWER_SHARE / 2
                    rounds.append(served[0])

    async def all_else() -> None:
        while True:
            served[0] += 1
            await asyncio.sleep(0)

    serving = asyncio.create_task(all_else())
    async with asyncio.timeout(5):
        await asyncio.gather(*(asked() for _ in range(limits.QUESTIONS_WAITING)))
    serving.cancel()
    assert len(set(rounds)) == limits.QUESTIONS_WAITING


async def test_questions_beyond_the_bound_of_an_rm_are_refused_at_once() -> None:
    pace = AnswerPace(lambda: 0.0, lambda: 0.0)
    release = asyncio.Event()

    async def slow() -> None:
        with pace.asked(RM) as questions:
            async with questions.turn():
                await release.wait()

    asked = [asyncio.create_task(slow()) for _ in range(limits.QUESTIONS_WAITING)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    too_many = "200 questions about 'rm-1' wait for this core, try again"
    with pytest.raises(Refused, match=too_many) as refusal, pace.asked(RM):
        pass
    assert refusal.value.code == 503
    async with asyncio.timeout(5):
        await answer(pace, [0.0], 0.0, OTHER)  # which waits for no answer about another RM
    asked.pop().cancel()  # a cancelled one leaves its place
    await asyncio.sleep(0)
    asked.append(asyncio.create_task(slow()))
    release.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*asked)
        await answer(pace, [0.0], 0.0)


async def test_a_slot_is_free_again_once_the_answer_is_computed() -> None:
    """The answer may wait for its commit to be durable."""
    pace, durable = AnswerPace(lambda: 0.0, lambda: 0.0), asyncio.Event()

    async def asked() -> None:
        with pace.asked(RM) as questions:
            async with questions.turn() as turn:
                with turn.spending():
                    pass
                await durable.wait()

    waiting = [asyncio.create_task(asked()) for _ in range(2 * limits.ANSWERED_AT_ONCE)]
    async with asyncio.timeout(5):
        await answer(pace, [0.0], 0.0)
        durable.set()
        await asyncio.gather(*waiting)
