"""Who is heard and who is silent."""

from dataclasses import replace

import pytest

from remuda_bus.bus import Refused
from remuda_rmproxy.limits import BACK_AGAIN_S, GONE_AFTER_S
from remuda_rmproxy.liveness import Liveness
from remuda_rmproxy.session import Heartbeat, Rm, check_extra_config

EVERY_5_S = Rm("rm-1", state="registered", extra_config={"heartbeat.interval": "5s"}, registration=1)
SAYS_NOTHING = Rm("rm-2", state="registered", registration=1)


class Story:
    """What is told, as time goes by."""

    def __init__(self, *rms: Rm) -> None:
        self.rms = list(rms)
        self.liveness = Liveness()
        self.now: float | None = None

    def at(self, now: float, *, heard: bool = False) -> list[tuple[str, str]]:
        """What has been told until then."""
        told = []
        while self.now is not None and self.now + 0.5 < now:
            told += self.look(self.now + 0.5)
        if heard:
            self.liveness.heard(self.rms[0], now)
        return told + self.look(now)

    def look(self, now: float) -> list[tuple[str, str]]:
        self.now = now
        told = list(self.liveness.judge(self.rms, now))
        for rm, verdict, _ in told:
            self.liveness.told(rm, verdict, now)
        return [(verdict, reason) for _, verdict, reason in told]


def test_silence_for_three_intervals_and_then_for_good() -> None:
    story = Story(EVERY_5_S)
    assert story.at(100) == []  # it has time
    assert story.at(104, heard=True) == [("back", "")]
    assert story.at(118.9) == []
    assert story.at(119) == [("lost", "silent for 15 s")]
    assert story.at(120) == []
    assert story.at(104 + GONE_AFTER_S) == [("gone", "silent for 600 s")]
    assert story.at(1_000, heard=True) == [("back", "")]


def test_that_it_is_there_is_said_again_now_and_then() -> None:
    """An rmproxy that was cut off may say much later that the RM was silent."""
    story = Story(EVERY_5_S)
    said = {at: story.at(at, heard=True) for at in range(100, int(101 + 2 * BACK_AGAIN_S), 5)}
    assert [at for at, told in said.items() if told == [("back", "")]] == [
        100,
        100 + BACK_AGAIN_S,
        100 + 2 * BACK_AGAIN_S,
    ]
    assert sum(map(len, said.values())) == 3
    assert story.at(100 + 2 * BACK_AGAIN_S + 15) == [("lost", "silent for 15 s")]
    assert story.at(100 + 4 * BACK_AGAIN_S) == []


def test_who_is_never_heard_is_lost_after_three_intervals_too() -> None:
    story = Story(EVERY_5_S)
    assert story.at(100) == []
    assert story.at(114.9) == []
    assert story.at(115) == [("lost", "silent for 15 s")]


def test_who_announces_nothing_is_never_judged() -> None:
    story = Story(SAYS_NOTHING)
    assert [story.at(now) for now in (0, 100, 10_000)] == [[], [], []]


def test_what_could_not_be_told_is_told_again() -> None:
    liveness = Liveness()
    liveness.heard(EVERY_5_S, 0)
    for now in (15.5, 16):
        assert [verdict for _, verdict, _ in liveness.judge([EVERY_5_S], now)] == ["lost"]


def test_a_time_in_which_nobody_listened_is_no_silence() -> None:
    """It was stopped, say. Whoever worked meanwhile may have told anything."""
    story = Story(EVERY_5_S)
    story.at(0, heard=True)
    assert story.look(20) == []
    assert story.at(34) == []
    assert story.at(34.5, heard=True) == [("back", "")]
    assert story.at(49.5) == [("lost", "silent for 15 s")]


def test_registering_is_a_sign_of_life_and_makes_it_run() -> None:
    story = Story(EVERY_5_S)
    story.at(0)
    assert story.at(20) == [("lost", "silent for 15 s")]
    story.rms = [replace(EVERY_5_S, registration=2)]
    assert story.at(21) == []
    assert story.at(22, heard=True) == []
    assert story.at(37) == [("lost", "silent for 15 s")]


def test_one_that_is_gone_from_the_records_is_forgotten() -> None:
    story = Story(EVERY_5_S)
    story.at(0)
    story.rms = []
    assert story.at(100) == []
    story.rms = [EVERY_5_S]
    assert story.at(101) == []  # it has time again


@pytest.mark.parametrize(
    ("extra", "heartbeat"),
    [
        ({}, None),
        ({"heartbeat.timeout": "5s"}, None),
        ({"heartbeat.interval": "500ms"}, Heartbeat(0.5, GONE_AFTER_S)),
        ({"heartbeat.interval": "1.5m", "heartbeat.timeout": "1h"}, Heartbeat(90.0, 3_600.0)),
        ({"heartbeat.interval": "1h"}, Heartbeat(3_600.0, 3 * 3_600.0)),
    ],
)
def test_what_is_announced(extra: dict[str, str], heartbeat: Heartbeat | None) -> None:
    check_extra_config(extra)
    assert Rm("rm-1", extra_config=extra).heartbeat == heartbeat


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "5d", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="expected a duration like 5s"):
        check_extra_config({"heartbeat.interval": text})
