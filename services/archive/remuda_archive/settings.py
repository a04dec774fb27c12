"""Settings of the archive, beyond those of every service."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from remuda_bus.settings import Seconds, Settings, Texts, setting


def _options(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        name, equals, _ = entry.partition("=")
        if not name or not equals:
            raise ValueError(f"{entry!r}: expected NAME=VALUE")
    return entries


class ArchiveSettings(Settings):
    store: str = setting(
        "archive.store", "remuda-archive",
        "a directory, or a URL like `s3://bucket/prefix`, `gs://…` or `az://…`",
    )  # fmt: skip
    options: Annotated[Texts, AfterValidator(_options)] = setting(
        "archive.options", (), "options of the object store, as `NAME=VALUE`"
    )
    write_s: Seconds = setting(
        "archive.write", 60.0, "how long commits may wait to be written together", gt=0, le=3_600
    )
    keep_s: Seconds = setting("archive.keep", 400 * 86_400.0, "how long hours are kept", gt=0)
    max_bytes: int = setting(
        "archive.max_bytes", 0, "bytes above which the oldest hours of any RM are deleted; 0: no limit", ge=0
    )

    @property
    def option_values(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.options)
