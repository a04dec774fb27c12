"""Settings of the configuration service, beyond those of every service."""

from __future__ import annotations

from typing import Literal

from remuda_bus.settings import Duration, ReadableFile, SchedulerAclSettings, setting
from remuda_config.defaults import Defaults

# Fields of the settings -> keys of `extraConfig`.
TIMING = {
    "timing_starting": "timing.starting",
    "timing_completing": "timing.completing",
    "timing_ended": "timing.ended",
    "timing_reservation_delay": "timing.reservation_delay",
    "timing_reservation_timeout": "timing.reservation_timeout",
    "timing_placeholder": "timing.placeholder",
    "timing_domain_delay": "timing.domain_delay",
    "preemption_interval": "timing.preemption_attempt",
}


class ConfigSettings(SchedulerAclSettings):
    queues_file: ReadableFile = setting("config.file", None, "the `queues.yaml` to serve and watch")
    compatibility: Literal["none", "yunikorn-1.4"] = setting(
        "config.compatibility", "none", "of RMs without it in `extraConfig`",
        variables=("REMUDA_COMPATIBILITY",),
    )  # fmt: skip
    preemption_threshold: int = setting(
        "preemption.threshold", 0,
        "no preemption while less per cent of the cluster is in use", ge=0, le=100,
    )  # fmt: skip
    preemption_interval: Duration = setting(
        "preemption.interval", "",
        "between two attempts to preempt for equal asks",
        default_shown="15s",
    )  # fmt: skip
    timing_starting: Duration = setting(
        "timing.starting", "", "how long an application is Starting", default_shown="5m"
    )
    timing_completing: Duration = setting(
        "timing.completing", "", "how long an application is Completing", default_shown="30s"
    )
    timing_ended: Duration = setting(
        "timing.ended", "", "how long records of ended and rejected applications are kept", default_shown="72h"
    )
    timing_reservation_delay: Duration = setting(
        "timing.reservation_delay", "", "how long an ask waits before it reserves a node", default_shown="2s"
    )
    timing_reservation_timeout: Duration = setting(
        "timing.reservation_timeout", "", "longest reservation of a node for an ask", default_shown="1h"
    )
    timing_placeholder: Duration = setting(
        "timing.placeholder", "", "how long placeholders are kept", default_shown="15m"
    )
    timing_domain_delay: Duration = setting(
        "timing.domain_delay", "", "how long a group waits before others avoid a domain for it", default_shown="10m"
    )

    def defaults(self) -> Defaults:
        timing = {key: value for name, key in TIMING.items() if (value := getattr(self, name))}
        return Defaults(self.compatibility, timing, self.preemption_threshold)
