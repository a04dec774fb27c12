"""Time goes on, whatever is done to the wall clock."""

from remuda_replication.leader import CLOCKS_DIFFER_MS, Clock

HOUR_MS = 3_600_000


class Machine:
    def __init__(self, wall_ms: int) -> None:
        self.wall_ms = wall_ms
        self.steady_s = 7.0

    def clock(self, not_before_ms: int = 0) -> Clock:
        return Clock(lambda: self.wall_ms, lambda: self.steady_s, not_before_ms)

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_s += ms / 1_000


def test_it_is_the_wall_clock() -> None:
    machine = Machine(10 * HOUR_MS)
    clock = machine.clock()
    machine.passes(1_500)
    assert clock.now_ms() == machine.wall_ms
    machine.wall_ms += HOUR_MS  # set, or the machine was asleep
    assert clock.now_ms() == machine.wall_ms


def test_set_back_it_goes_on_at_its_own_pace() -> None:
    machine = Machine(10 * HOUR_MS)
    clock = machine.clock()
    machine.wall_ms -= HOUR_MS
    assert clock.now_ms() == 10 * HOUR_MS
    machine.passes(90_000)
    assert clock.now_ms() == 10 * HOUR_MS + 90_000
    machine.wall_ms += HOUR_MS
    assert clock.now_ms() == machine.wall_ms


def test_it_begins_where_the_log_ends() -> None:
    machine = Machine(10 * HOUR_MS)
    clock = machine.clock(11 * HOUR_MS)
    machine.passes(1_000)
    assert clock.now_ms() == 11 * HOUR_MS + 1_000


def test_small_corrections_are_waited_for() -> None:
    machine = Machine(10 * HOUR_MS)
    clock = machine.clock()
    machine.wall_ms -= CLOCKS_DIFFER_MS
    for _ in range(CLOCKS_DIFFER_MS // 100):
        machine.passes(100)
        assert clock.now_ms() == 10 * HOUR_MS
    machine.passes(100)
    assert clock.now_ms() == 10 * HOUR_MS + 100 == machine.wall_ms
