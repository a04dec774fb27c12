"""The entries of `extraConfig` that rmproxy reads: what an RM asks of its session. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from remuda_bus.bus import Refused
from remuda_proto.bounds import shown
from remuda_proto.durations import milliseconds
from remuda_rmproxy.limits import HEARTBEAT_INTERVAL_RANGE_S, HEARTBEAT_TIMEOUT_S, LOST_AFTER_INTERVALS
from remuda_rmproxy.records.status_codes import INVALID

RESYNC: Final = "resync"
RESYNCS: Final = ("report", "replay")
EVENTS: Final = "events"  # "true": the RM reads the event history
HEARTBEAT_INTERVAL: Final = "heartbeat.interval"
HEARTBEAT_TIMEOUT: Final = "heartbeat.timeout"
FORGET_AFTER: Final = "forget.after"  # time from the deregistration to the removal of the RM's data


@dataclass(frozen=True, slots=True)
class AnnouncedHeartbeat:
    """The RM sends a heartbeat every `interval_s`. It is gone after `timeout_s` without one."""

    interval_s: float
    timeout_s: float


def check_extra_config(extra: Mapping[str, str]) -> None:
    """Raises Refused 400 for an entry that rmproxy reads and cannot understand."""
    resync = extra.get(RESYNC, RESYNCS[0])
    if resync not in RESYNCS:
        raise Refused(f"extraConfig {RESYNC} {shown(resync)}: expected {' or '.join(RESYNCS)}", INVALID)
    for name in (HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, FORGET_AFTER):
        if name in extra and seconds_of(extra[name]) is None:
            raise Refused(f"extraConfig {name} {shown(extra[name])}: expected a duration like 5s, 500ms or 1m", INVALID)
    heartbeat = announced_heartbeat(extra)
    if heartbeat is not None:
        _check_heartbeat(heartbeat, shown(extra[HEARTBEAT_INTERVAL]))


def _check_heartbeat(heartbeat: AnnouncedHeartbeat, interval: str) -> None:
    """`interval`: as the RM has written it."""
    least_s, most_s = HEARTBEAT_INTERVAL_RANGE_S
    if not least_s <= heartbeat.interval_s <= most_s:
        reason = f"extraConfig {HEARTBEAT_INTERVAL} {interval}: expected {least_s:g} s to {most_s:g} s"
        raise Refused(reason, INVALID)
    if heartbeat.timeout_s < LOST_AFTER_INTERVALS * heartbeat.interval_s:
        raise Refused(
            f"extraConfig {HEARTBEAT_TIMEOUT} {heartbeat.timeout_s:g} s: expected at least {LOST_AFTER_INTERVALS} "
            f"times {HEARTBEAT_INTERVAL}, {heartbeat.interval_s:g} s",
            INVALID,
        )


def announced_heartbeat(extra: Mapping[str, str]) -> AnnouncedHeartbeat | None:
    """Returns the heartbeat that the RM announces; None: it announces none, and is never reported as lost."""
    interval_s = seconds_of(extra.get(HEARTBEAT_INTERVAL, ""))
    if interval_s is None:
        return None
    timeout_s = seconds_of(extra.get(HEARTBEAT_TIMEOUT, ""))
    if timeout_s is None:
        timeout_s = max(HEARTBEAT_TIMEOUT_S, LOST_AFTER_INTERVALS * interval_s)
    return AnnouncedHeartbeat(interval_s, timeout_s)


def seconds_of(text: str) -> float | None:
    """Returns the seconds of a duration; None: the text is no duration."""
    duration_ms = milliseconds(text.strip())
    return None if duration_ms is None else duration_ms / 1_000
