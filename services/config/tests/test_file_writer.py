"""Atomic replacement of a file, and an update by API when the file cannot be written."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from remuda_config import file_writer
from remuda_config.file_writer import NotWritable, prepare, remove_leftovers
from services.config.tests.running_service import (
    eventually,
    file_problem,
    is_active,
    limited,
    problems_of_file,
    service,
    stopped_clock,
)
from services.config.tests.test_file import publish
from services.config.tests.test_versions import change, history, refused

MEBIBYTE = 1024 * 1024


@contextmanager
def disk_full():
    """No file of this process grows beyond one byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def refusing(number: int, after: int = 0):
    """The directory refuses new files after so many, as on a file system that has become read-only."""
    real, left = os.open, after

    def opened(path, flags, *args, **options):
        nonlocal left
        if flags & os.O_CREAT and str(path).endswith(".remuda"):
            left -= 1
            if left < 0:
                raise OSError(number, os.strerror(number))
        return real(path, flags, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opened)
        yield


def test_content_mode_and_owner(tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text("old")
    file.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(file, 1234, 4321)
    before = file.stat()
    prepared = prepare(file, b"new")
    assert file.read_text() == "old"
    prepared.commit()
    after = file.stat()
    assert file.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    prepare(file, b"never").discard()
    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == ["queues.yaml"]


def test_a_link_stays(tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "target", tmp_path / "queues.yaml"
    target.write_text("old")
    link.symlink_to("data/target")
    prepare(link, b"new").commit()
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_new_file(tmp_path):
    file = tmp_path / "queues.yaml"
    prepare(file, b"new").commit()
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == file_writer.DEFAULT_MODE


def test_what_killed_processes_leave_behind(tmp_path):
    file = tmp_path / "queues[1].yaml"
    prepare(file, b"new")
    other = tmp_path / ".queues1.yaml.0123456789abcdef.remuda"
    other.write_text("of another file")
    remove_leftovers(file)
    assert os.listdir(tmp_path) == [other.name]


def test_links_in_a_circle(tmp_path):
    file = tmp_path / "queues.yaml"
    file.symlink_to(file)
    with pytest.raises(NotWritable):
        prepare(file, b"new")


def failures() -> dict[str, Callable[[], AbstractContextManager[None]]]:
    return {
        "File too large": disk_full,
        "Permission denied": lambda: refusing(errno.EACCES),
        "Read-only file system": lambda: refusing(errno.EROFS),
        "No space left on device": lambda: refusing(errno.ENOSPC),
    }


async def test_a_file_that_cannot_be_written_refuses_the_change(server, bus, tmp_path):
    directory = tmp_path / "etc"
    directory.mkdir()
    file = directory / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        for message, failing in failures().items():
            with failing():
                for verb, request in (("update", {"text": limited(2)}), ("update", {"edits": [EDIT]})):
                    reason = await refused(409, change(bus, verb, **request))
                    assert f"{file} cannot be written: {message}; nothing has changed" == reason
        assert await history(bus) == [(1, "file", "")]
        assert file.read_text() == limited(1)
        assert os.listdir(directory) == ["queues.yaml"]
        await change(bus, "update", text=limited(2))
        with disk_full():
            await refused(409, change(bus, "rollback", version=1))
        assert await is_active(bus, limited(2))


EDIT = {"do": "set", "queue": "root.a", "key": "maxapplications", "value": "7"}


async def test_a_staged_change_ends_although_the_file_cannot_be_written(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        with refusing(errno.EROFS, after=1):
            with stopped_clock():
                await change(bus, "update", text=limited(2), for_ms=1_000)
            await eventually(lambda: is_active(bus, limited(1)))
            assert file.read_text() == limited(2)
            (tmp_path / "other").write_text("")  # a change in the directory: the file is read again
            await eventually(lambda: file_problem(bus, "cannot be written"))
        (tmp_path / "other").unlink()
        await eventually(lambda: file.read_text() == limited(1))
        await eventually(lambda: no_problems(bus))
        assert [one[1] for one in await history(bus)] == ["expired", "api", "file"]


async def no_problems(bus) -> bool:
    return not await problems_of_file(bus)


async def test_an_update_while_the_file_has_an_edit_that_is_not_in_force(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        file.write_text("partitions: 7")
        await eventually(lambda: problems_of_file(bus))
        reason = await refused(409, change(bus, "update", text=limited(2)))
        assert "line 1: partitions: expected a list" in reason
        file.unlink()
        await eventually(lambda: file_problem(bus, "cannot be read"))
        assert "No such file" in await refused(409, change(bus, "update", text=limited(2)))
        assert file.exists() is False
        await change(bus, "update", text=limited(2), overwrite=True)
        assert file.read_text() == limited(2)
        assert await history(bus) == [(2, "api", (await history(bus))[0][2]), (1, "file", "")]


async def test_a_mounted_config_map_that_can_be_written(server, bus, tmp_path):
    """The next update of the mount replaces what an operator has changed: it is the newest edit."""
    mount = tmp_path / "mount"
    mount.mkdir()
    publish(mount, 1)
    file: Path = mount / "queues.yaml"
    file.symlink_to("..data/queues.yaml")
    async with service(server, file):
        await change(bus, "update", text=limited(2))
        assert file.is_symlink()
        assert file.read_text() == limited(2)
        publish(mount, 3)
        await eventually(lambda: is_active(bus, limited(3)))
        assert [one[1] for one in await history(bus)] == ["file", "api", "file"]
