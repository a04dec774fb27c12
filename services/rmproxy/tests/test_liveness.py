"""Which RMs are connected, lost and gone."""

from dataclasses import replace
from typing import Any

import pytest

from remuda_bus.bus import Refused
from remuda_rmproxy.limits import BACK_REPORT_INTERVAL_S, HEARTBEAT_TIMEOUT_S
from remuda_rmproxy.records.extra_config import AnnouncedHeartbeat, check_extra_config
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.liveness import Liveness

EVERY_5_S = RmRecord("rm-1", state="registered", extra_config={"heartbeat.interval": "5s"}, registration=1)
ANNOUNCES_NOTHING = RmRecord("rm-2", state="registered", registration=1)


class Reports:
    """Collects the reports as time passes."""

    def __init__(self, *rms: RmRecord) -> None:
        self.rms = list(rms)
        self.liveness = Liveness()
        self.now: float | None = None

    def at(self, now: float, *, heard: bool = False) -> list[tuple[str, str]]:
        """Returns the reports until then."""
        reported = []
        while self.now is not None and self.now + 0.5 < now:
            reported += self.look(self.now + 0.5)
        if heard:
            self.liveness.record_heartbeat(self.rms[0], now)
        return reported + self.look(now)

    def look(self, now: float) -> list[tuple[str, str]]:
        self.now = now
        for rm in self.rms:
            self.liveness.track(rm, now)
        reported = list(self.liveness.due_reports(now))
        for rm, verdict, _ in reported:
            self.liveness.mark_reported(rm, verdict, now)
        return [(verdict, reason) for _, verdict, reason in reported]


def test_silence_for_three_intervals_and_then_for_good() -> None:
    reports = Reports(EVERY_5_S)
    assert reports.at(100) == []  # it has time
    assert reports.at(104, heard=True) == [("back", "")]
    assert reports.at(118.9) == []
    assert reports.at(119) == [("lost", "silent for 15 s")]
    assert reports.at(120) == []
    assert reports.at(104 + HEARTBEAT_TIMEOUT_S) == [("gone", "silent for 600 s")]
    assert reports.at(1_000, heard=True) == [("back", "")]


def test_back_is_reported_again_at_intervals() -> None:
    """An rmproxy that was cut off may report much later that the RM was silent."""
    reports = Reports(EVERY_5_S)
    repeated = {at: reports.at(at, heard=True) for at in range(100, int(101 + 2 * BACK_REPORT_INTERVAL_S), 5)}
    assert [at for at, reported in repeated.items() if reported == [("back", "")]] == [
        100,
        100 + BACK_REPORT_INTERVAL_S,
        100 + 2 * BACK_REPORT_INTERVAL_S,
    ]
    assert sum(map(len, repeated.values())) == 3
    assert reports.at(100 + 2 * BACK_REPORT_INTERVAL_S + 15) == [("lost", "silent for 15 s")]
    assert reports.at(100 + 4 * BACK_REPORT_INTERVAL_S) == []


def test_an_rm_without_any_heartbeat_is_lost_after_three_intervals_too() -> None:
    reports = Reports(EVERY_5_S)
    assert reports.at(100) == []
    assert reports.at(114.9) == []
    assert reports.at(115) == [("lost", "silent for 15 s")]


def test_an_rm_that_announces_no_heartbeats_is_never_lost() -> None:
    reports = Reports(ANNOUNCES_NOTHING)
    assert [reports.at(now) for now in (0, 100, 10_000)] == [[], [], []]


def test_a_report_is_repeated_until_it_is_marked() -> None:
    liveness = Liveness()
    liveness.record_heartbeat(EVERY_5_S, 0)
    for now in (15.5, 16):
        assert [verdict for _, verdict, _ in liveness.due_reports(now)] == ["lost"]


def test_a_flood_of_beats_costs_no_memory() -> None:
    liveness = Liveness()
    for beat in range(10_000):
        liveness.record_heartbeat(EVERY_5_S, 1 + beat / 10_000)  # and the core cannot be told
    assert len(liveness._due) < 10


def test_registrations_of_one_rm_cost_no_memory() -> None:
    """Each makes the entries of the former ones obsolete, hours before they are due."""
    liveness = Liveness()
    hourly = replace(EVERY_5_S, extra_config={"heartbeat.interval": "1h"})
    for registration in range(1, 10_000):
        liveness.track(replace(hourly, registration=registration), registration / 100)
    assert len(liveness._due) < 200
    assert [state for _, state, _ in liveness.due_reports(100 + 3 * 3_600)] == ["gone"]


def test_an_idle_rm_costs_nothing() -> None:
    """Of thousands of RMs only those are looked at that may have become silent."""
    liveness = Liveness()
    for number in range(5_000):
        liveness.track(replace(EVERY_5_S, rm_id=f"rm-{number}"), 0)
    looked: list[str] = []
    liveness._tracked = Counted(liveness._tracked, looked)
    for tenth in range(100):
        assert list(liveness.due_reports(tenth / 10)) == []
    assert not looked


class Counted(dict[str, Any]):
    def __init__(self, entries: dict[str, Any], looked: list[str]) -> None:
        super().__init__(entries)
        self._looked = looked

    def get(self, key: str, default: Any = None) -> Any:
        self._looked.append(key)
        return super().get(key, default)


def test_a_stall_of_the_monitor_does_not_count_as_silence() -> None:
    """The process was stopped, for example. Another process may have reported anything meanwhile."""
    reports = Reports(EVERY_5_S)
    reports.at(0, heard=True)
    assert reports.look(20) == []
    assert reports.at(34) == []
    assert reports.at(34.5, heard=True) == [("back", "")]
    assert reports.at(49.5) == [("lost", "silent for 15 s")]


def test_a_registration_counts_as_a_heartbeat() -> None:
    reports = Reports(EVERY_5_S)
    reports.at(0)
    assert reports.at(20) == [("lost", "silent for 15 s")]
    reports.rms = [replace(EVERY_5_S, registration=2)]
    assert reports.at(21) == []
    assert reports.at(22, heard=True) == []
    assert reports.at(37) == [("lost", "silent for 15 s")]


def test_an_rm_without_a_record_is_not_tracked() -> None:
    reports = Reports(EVERY_5_S)
    reports.at(0)
    reports.rms = []
    reports.liveness.untrack("rm-1")
    assert reports.at(100) == []
    reports.rms = [EVERY_5_S]
    assert reports.at(101) == []  # it has time again


@pytest.mark.parametrize(
    ("extra", "heartbeat"),
    [
        ({}, None),
        ({"heartbeat.timeout": "5s"}, None),
        ({"heartbeat.interval": "500ms"}, AnnouncedHeartbeat(0.5, HEARTBEAT_TIMEOUT_S)),
        ({"heartbeat.interval": "1.5m", "heartbeat.timeout": "1h"}, AnnouncedHeartbeat(90.0, 3_600.0)),
        ({"heartbeat.interval": "1h"}, AnnouncedHeartbeat(3_600.0, 3 * 3_600.0)),
    ],
)
def test_what_is_announced(extra: dict[str, str], heartbeat: AnnouncedHeartbeat | None) -> None:
    check_extra_config(extra)
    assert RmRecord("rm-1", extra_config=extra).heartbeat == heartbeat


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "5d", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="expected a duration like 5s"):
        check_extra_config({"heartbeat.interval": text})
