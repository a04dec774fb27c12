"""Settings of the event service, beyond those of every service."""

from __future__ import annotations

from remuda_bus.settings import Settings, Texts, setting


class EventsSettings(Settings):
    ledger: bool = setting(
        "events.ledger", False, "keep a ledger of each RM: what was used in each hour, for 400 days; see docs/time.md"
    )
    ledger_tags: Texts = setting(
        "events.ledger_tags", (),
        "names of tags of applications and asks, such as `project`, by which the ledger tells use apart",
    )  # fmt: skip
