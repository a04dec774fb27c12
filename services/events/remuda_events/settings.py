"""Settings of the event service, beyond those of every service."""

from __future__ import annotations

from remuda_bus.settings import Settings, Texts, setting


class EventsSettings(Settings):
    ledger: bool = setting("events.ledger", False, "keep a ledger of each RM for 400 days (docs/time.md)")
    ledger_tags: Texts = setting(
        "events.ledger_tags", (),
        "tags by which the ledger tells use apart, such as `project`",
    )  # fmt: skip
