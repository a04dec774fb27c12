"""Bugs of answers to questions, each put into the running code on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from remuda_core.core import Core
from remuda_core.shell import copies
from remuda_core.shell.answer_pace import AnswerPace, Questions, Turn
from remuda_core.shell.replica import Replica
from remuda_core.shell.rm_standby import RmStandby
from remuda_replication.leader import Leader
from remuda_replication.lease import Ownership
from remuda_replication.log import Position
from remuda_replication.standby import Standby

from .mutants import Mutant


def answered_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A leader sends answers before the commit that their state belongs to is in the log."""
    answers = Leader._answers

    def hasty(leader: Leader) -> list[Any]:
        leader._resolve(answers(leader))
        return []

    patch.setattr(Leader, "_answers", hasty)


def commits_are_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """An answer is sent although the core has not reached the commit that the question names."""

    async def reached(replica: Replica, request: dict[str, Any]) -> None:
        pass

    patch.setattr(Replica, "reached", reached)


def slots_are_held_until_answers_are_durable(patch: pytest.MonkeyPatch) -> None:
    """Questions about all RMs share the slots of a core, also while they wait for a commit."""
    asked = AnswerPace.asked

    def together(pace: AnswerPace, rm_id: str) -> AbstractContextManager[Questions]:
        return asked(pace, "all")

    @contextmanager
    def spending(turn: Turn) -> Iterator[None]:
        with turn._pace.spending():
            yield

    patch.setattr(AnswerPace, "asked", together)
    patch.setattr(Turn, "spending", spending)


def questions_outlive_their_leader(patch: pytest.MonkeyPatch) -> None:
    """A leader that ends refuses the questions that are queued, and leaves those that wait for a commit."""

    def refuse(leader: Leader) -> None:
        leader._ended = True
        for answer in leader._questions:
            if not answer.done():
                answer.set_exception(asyncio.CancelledError())

    patch.setattr(Leader, "_refuse_questions", refuse)


def leaders_that_have_failed_are_asked(patch: pytest.MonkeyPatch) -> None:
    """A core goes on answering when its leader has failed, with what was decided and is not in the log."""

    def answered_at(standby: RmStandby) -> Position:
        return standby.position

    patch.setattr(RmStandby, "_answered_at", answered_at)


def positions_are_outdated_after_leading(patch: pytest.MonkeyPatch) -> None:
    """A core that hands an RM over answers with the state of its last commit, and names the one at which it took it."""
    lead = Standby._lead

    async def then_forget(standby: Standby, ownership: Ownership) -> Position:
        before = standby.position
        position = await lead(standby, ownership)
        standby._follower.position = before
        return position

    patch.setattr(Standby, "_lead", then_forget)


def previews_change_the_state(patch: pytest.MonkeyPatch) -> None:
    """A preview is played on the state, not on a copy."""

    def itself(core: Core) -> Core:
        return core

    patch.setattr(copies, "copy_of", itself)


QUESTION_MUTANTS: tuple[Mutant, ...] = (
    answered_before_it_is_durable, commits_are_not_awaited, slots_are_held_until_answers_are_durable,
    questions_outlive_their_leader, leaders_that_have_failed_are_asked,
    positions_are_outdated_after_leading, previews_change_the_state,
)  # fmt: skip
