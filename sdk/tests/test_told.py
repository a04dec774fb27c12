"""What an RM notices by itself of a log that is not the one it was told of."""

from __future__ import annotations

import pytest

from remuda_bus import subjects
from remuda_bus.bus import ChangedPast, Message
from remuda_sdk.told import Told


def callback(seq: int, fact: int, after: str, log: str = "aa") -> Message:
    headers = {
        subjects.LOG_SEQ: str(seq),
        subjects.LOG_FACT: str(fact),
        subjects.LOG_HASH: f"{log}{seq:02}",
        subjects.AFTER: after,
    }
    return Message(subjects.callback("rm-1", "allocation"), b"", headers, seq)


def told_of(*messages: Message) -> Told:
    told = Told()
    for message in messages:
        assert told.is_new(message)
        told.taken(message)()
    return told


def test_what_follows_is_new_and_what_comes_again_is_not() -> None:
    told = told_of(callback(5, 3, "0.-1"), callback(7, 1, "5.3"), callback(7, 4, "7.1"))
    assert not told.is_new(callback(7, 1, "5.3"))
    assert told.is_new(callback(9, 0, "7.4"))
    assert told.headers() == {subjects.LOG_SEQ: "7", subjects.LOG_HASH: "aa07"}


def test_a_process_begins_anywhere() -> None:
    told = told_of(callback(50, 3, "44.1"))
    assert not told.is_new(callback(44, 1, "40.1")), "told before"


def test_a_commit_that_is_told_otherwise_in_parts() -> None:
    """Another rmproxy, of another version, may cut messages at other facts."""
    assert told_of(callback(5, 3, "0.-1")).is_new(callback(5, 6, "0.-1"))


def test_a_gap() -> None:
    with pytest.raises(ChangedPast, match=r"the callback before 9\.0 is 8\.2, but what was told last is 7\.1"):
        told_of(callback(7, 1, "5.3")).is_new(callback(9, 0, "8.2"))


def test_a_log_that_was_put_back_and_went_on_otherwise() -> None:
    told = told_of(callback(5, 0, "0.-1"), callback(7, 1, "5.0"), callback(8, 0, "7.1"))
    with pytest.raises(ChangedPast, match="commit 8 was told of as aa08, and now as bb08"):
        told.is_new(callback(8, 0, "5.0", "bb"))
    with pytest.raises(ChangedPast, match="commit 6 is told of, after 8 and for the first time"):
        told.is_new(callback(6, 0, "5.0", "bb"))
    with pytest.raises(ChangedPast, match=r"the callback before 9\.0 is 6\.0"):
        told.is_new(callback(9, 0, "6.0", "bb"))


def test_after_a_registration_something_may_be_left_out() -> None:
    told = told_of(callback(5, 0, "0.-1"))
    told.skips()
    assert told.is_new(callback(9, 0, "8.0"))
    told.taken(callback(9, 0, "8.0"))()
    with pytest.raises(ChangedPast):
        told.is_new(callback(11, 0, "10.0"))


def test_what_was_under_way_during_a_registration_says_nothing_about_what_follows() -> None:
    told = told_of(callback(5, 0, "0.-1"))
    worked_on = told.taken(callback(7, 0, "5.0"))
    told.skips()
    worked_on()
    assert not told.is_new(callback(7, 0, "5.0"))
    assert told.is_new(callback(9, 0, "8.0"))
