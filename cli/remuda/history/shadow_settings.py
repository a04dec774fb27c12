"""Settings of the shadow, beyond those of every service."""

from __future__ import annotations

from pathlib import Path

from remuda_bus.settings import ReadableFile, Seconds, Settings, Texts, setting


class ShadowSettings(Settings):
    queues: ReadableFile = setting("shadow.queues", None, "file: the `queues.yaml` to decide with; none: that in force")
    version: Path | None = setting(
        "shadow.version", None,
        "wheel of the version to decide with, or a directory with it and its requirements",
    )  # fmt: skip
    rms: Texts = setting("shadow.rms", (), "resource managers that are followed; none: all")
    directory: Path = setting("shadow.directory", Path("remuda-shadow"), "what the shadow follows, and its reports")
    interval_s: Seconds = setting("shadow.interval", 60.0, "how often new commits are decided again", ge=1, le=3_600)
    effect_s: Seconds = setting("shadow.effect", 3_600.0, "how often the effect is played; 0: only in the end", ge=0)
    for_s: Seconds = setting("shadow.for", 0.0, "time after which the shadow ends; 0: never", ge=0)
    keep_s: Seconds = setting(
        "shadow.keep",
        7 * 86_400.0,
        "how long hours are kept",
        gt=0,
    )
