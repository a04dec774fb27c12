"""The callback cursor detects repeated callbacks, gaps and another log."""

from __future__ import annotations

import pytest

from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged, Message
from remuda_sdk.resource_manager.callbacks import CallbackCursor


def callback(seq: int, fact: int, after: str, log: str = "aa") -> Message:
    headers = {
        subjects.LOG_SEQ: str(seq),
        subjects.LOG_FACT: str(fact),
        subjects.LOG_HASH: f"{log}{seq:02}",
        subjects.AFTER: after,
    }
    return Message(subjects.callback("rm-1", "allocation"), b"", headers, seq)


def told_of(*messages: Message) -> CallbackCursor:
    told = CallbackCursor()
    for message in messages:
        assert told.is_new(message)
        told.taken(message)()
    return told


def test_the_next_callback_is_new_and_a_repeated_one_is_not() -> None:
    told = told_of(callback(5, 3, "0.-1"), callback(7, 1, "5.3"), callback(7, 4, "7.1"))
    assert not told.is_new(callback(7, 1, "5.3"))
    assert told.is_new(callback(9, 0, "7.4"))
    assert told.headers() == {subjects.LOG_SEQ: "7", subjects.LOG_HASH: "aa07"}


def test_a_cursor_may_start_at_any_callback() -> None:
    told = told_of(callback(50, 3, "44.1"))
    assert not told.is_new(callback(44, 1, "40.1")), "told before"


def test_a_commit_split_differently_into_callbacks() -> None:
    """An rmproxy of another version may split callbacks at other facts."""
    assert told_of(callback(5, 3, "0.-1")).is_new(callback(5, 6, "0.-1"))


def test_a_gap() -> None:
    with pytest.raises(HistoryChanged, match=r"the callback before 9\.0 is 8\.2, but the last processed one is 7\.1"):
        told_of(callback(7, 1, "5.3")).is_new(callback(9, 0, "8.2"))


def test_a_restored_log_that_continued_differently() -> None:
    told = told_of(callback(5, 0, "0.-1"), callback(7, 1, "5.0"), callback(8, 0, "7.1"))
    with pytest.raises(HistoryChanged, match="commit 8 had the hash aa08 in an earlier callback, and has bb08 now"):
        told.is_new(callback(8, 0, "5.0", "bb"))
    with pytest.raises(HistoryChanged, match="a callback of commit 6 comes first after one of commit 8"):
        told.is_new(callback(6, 0, "5.0", "bb"))
    with pytest.raises(HistoryChanged, match=r"the callback before 9\.0 is 6\.0"):
        told.is_new(callback(9, 0, "6.0", "bb"))


def test_a_gap_is_allowed_after_a_registration() -> None:
    told = told_of(callback(5, 0, "0.-1"))
    told.allow_gap()
    assert told.is_new(callback(9, 0, "8.0"))
    told.taken(callback(9, 0, "8.0"))()
    with pytest.raises(HistoryChanged):
        told.is_new(callback(11, 0, "10.0"))


def test_a_callback_processed_during_a_registration_still_allows_a_gap() -> None:
    told = told_of(callback(5, 0, "0.-1"))
    worked_on = told.taken(callback(7, 0, "5.0"))
    told.allow_gap()
    worked_on()
    assert not told.is_new(callback(7, 0, "5.0"))
    assert told.is_new(callback(9, 0, "8.0"))


def test_callbacks_up_to_a_state_are_skipped() -> None:
    """The RM has read a state that contains commit 7."""
    told = CallbackCursor()
    told.skip_to(7)
    assert not told.is_new(callback(5, 0, "0.-1"))
    assert not told.is_new(callback(7, 99, "5.0"))
    assert told.is_new(callback(8, 0, "7.99"))
