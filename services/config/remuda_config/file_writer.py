"""Replaces the content of a file atomically: a reader sees the old content or the new one, also after a crash.

The new content is written to a temporary file in the same directory, which is renamed. So everything that can fail has
failed before the file changes, except for the rename. Where the name is a symbolic link, the file that it leads to is
replaced, and the link stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

DEFAULT_MODE = 0o644


class NotWritable(Exception):
    """The file cannot be written, and is unchanged; the message says why."""


class PreparedFile:
    """The new content of a file, on disk under a temporary name. It ends with `commit` or `discard`."""

    def __init__(self, target: Path, temporary: Path) -> None:
        self._target = target
        self._temporary = temporary

    def commit(self) -> None:
        """Gives the file its new content. Raises NotWritable."""
        try:
            os.replace(self._temporary, self._target)
        except OSError as error:
            self.discard()
            raise _not_writable(self._target, error) from error
        with contextlib.suppress(OSError):  # the content is in place; only its durability is in doubt
            _sync_directory(self._target.parent)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._temporary.unlink()


def prepare(file: Path, content: bytes) -> PreparedFile:
    """Writes the content beside the file, with the file's mode and owner.

    Raises NotWritable: the file or the directory is read-only, the disk is full, or the owner cannot be kept.
    """
    target = file
    temporary: Path | None = None
    try:
        target = file.resolve()
        if target.is_symlink():  # links in a circle, from Python 3.13 on
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.remuda")
        before = target.stat() if target.exists() else None
        if before is not None and not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied")  # a read-only file in a directory that is not
        _write(temporary, content, before)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, up to Python 3.12
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise _not_writable(file, error) from error
    return PreparedFile(target, temporary)


def remove_leftovers(file: Path) -> None:
    """Removes the temporary files of processes that were killed."""
    with contextlib.suppress(OSError, RuntimeError):
        target = file.resolve()
        for leftover in target.parent.glob(f".{_without_wildcards(target.name)}.????????????????.remuda"):
            leftover.unlink()


def _write(temporary: Path, content: bytes, before: os.stat_result | None) -> None:
    mode = stat.S_IMODE(before.st_mode) if before is not None else DEFAULT_MODE
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        own = os.fstat(descriptor)
        if before is not None and (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, mode)  # after the owner, whose change clears bits of the mode
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _without_wildcards(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _not_writable(file: Path, error: Exception) -> NotWritable:
    return NotWritable(f"{file} cannot be written: {getattr(error, 'strerror', None) or error}")
