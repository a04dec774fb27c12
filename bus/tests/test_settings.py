"""Settings of services: precedence of their sources, origins, and what is said about mistakes."""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus import limits
from remuda_bus.settings import (
    Duration,
    SchedulerAclSettings,
    Seconds,
    Settings,
    SettingsProblems,
    Texts,
    effective,
    load,
    setting,
)
from remuda_bus.settings.loading import NotSettings, read_text
from remuda_proto.access_list import AccessList


class OfCore(Settings):
    standbys: int = setting("core.standbys", 1, variables=("REMUDA_STANDBYS",), ge=0)
    interval_s: Seconds = setting("core.snapshots.interval", 300.0, ge=0)
    names: Texts = setting("core.names", ())
    delay: Duration = setting("core.delay", "")
    word: str = setting("core.word", "", secret=True)


def written(folder: Path, text: str) -> Path:
    file = folder / "remuda.yaml"
    file.write_text(text)
    return file


def problems(file: Path | None, *assignments: str) -> list[str]:
    with pytest.raises(SettingsProblems) as refused:
        load(OfCore, file, assignments)
    return refused.value.problems


def test_the_first_source_with_a_value_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "core:\n  standbys: 2\n  snapshots: {interval: 5m}\nlog: {level: debug}\n")
    loaded = load(OfCore, file)
    settings, origins = loaded.settings, loaded.origins
    assert (settings.standbys, settings.interval_s, settings.log_level, settings.log_format) == (
        2, 300.0, "debug", "console",
    )  # fmt: skip
    assert (origins["standbys"], origins["log_level"], origins["log_format"]) == (f"{file}:2", f"{file}:4", "default")
    monkeypatch.setenv("REMUDA_STANDBYS", "3")
    assert load(OfCore, file).origins["standbys"] == "REMUDA_STANDBYS" and load(OfCore, file).settings.standbys == 3
    monkeypatch.setenv("REMUDA_CORE_STANDBYS", "4")  # the name that follows from the key
    assert load(OfCore, file).settings.standbys == 4
    assigned = load(OfCore, file, ["core.standbys=5", "core.standbys=6"])
    assert (assigned.settings.standbys, assigned.origins["standbys"]) == (6, "--set")
    assert load(OfCore, file, environment=False).settings.standbys == 2
    assert OfCore(standbys=7).standbys == 7 and OfCore().standbys == 1  # a constructor has no sources


@pytest.mark.parametrize("text", ["", "# nothing\n", "core:\n", "core: {standbys: }\n", "null\n"])
def test_what_is_left_open_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("REMUDA_STANDBYS", "")
    assert load(OfCore, written(tmp_path, text)).settings.standbys == 1


def test_all_problems_are_named_with_place_key_value_and_what_was_expected(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "core:\n  standby: 2\n  standbys: many\n  snapshots: {interval: soon, interval: 1}\n  delay: 0s\n"
        "  names: {a: b}\nnats: here\nlog:\n  level: loud\ntrace: {}\nhealth: {port: 70000}\n",
    )
    found = problems(file, "core.standys=1", "nonsense", "health.port=x")
    for said in (
        f"{file}:2: unknown key 'core.standby', expected core.standbys?",
        f"{file}:3: core.standbys='many': expected a valid integer",
        f"{file}:4: core.snapshots.interval: the key stands in line 4, too",
        f"{file}:4: core.snapshots.interval='soon': expected a number of seconds, or a duration like 30s or 5m",
        f"{file}:5: core.delay='0s': expected a duration of at least 1ms",
        f"{file}:6: core.names: expected a value or a list of values",
        f"{file}:7: nats: expected a section, keys and values",
        f"{file}:9: log.level='loud': expected 'debug', 'info', 'warning' or 'error'",
        f"{file}:10: unknown key 'trace'",
        "--set: unknown key 'core.standys', expected core.standbys?",
        "--set 'nonsense': expected KEY=VALUE",
        "--set health.port='x': expected a valid integer",
    ):
        assert [one for one in found if one.startswith(said)], (said, found)
    assert len(found) == 12


def test_the_sections_of_other_services_are_left_to_them(tmp_path: Path) -> None:
    file = written(tmp_path, "rms: {nonsense: 1}\ntiming: {completing: 1h}\ncore: {standbys: 2}\n")
    assert load(OfCore, file, ["rms.most=1"]).settings.standbys == 2
    with pytest.raises(SettingsProblems, match="unknown key 'cores'"):
        load(OfCore, written(tmp_path, "cores: {}\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("core: [", "remuda.yaml:1: not YAML"),
        ("a: b: c", "remuda.yaml:1: not YAML"),
        ("core: &a\n  snapshots: *a\n", "remuda.yaml:2: unknown key 'core.snapshots.snapshots'"),
        ("[1, 2]", "remuda.yaml:1: the file: expected a section"),
        ("? {a: b}\n: c\n", "remuda.yaml:1: the file: a key is not a word"),
        ("log: {level: \xff}".encode("latin-1"), "remuda.yaml:1: byte 0xff is not UTF-8"),
        ("# " + "x" * limits.SETTINGS_BYTES, "more than 1,000,000 bytes"),
        ("\0", "not YAML"),
        ("[" * 5_000, "not YAML"),
    ],
)
def test_files_that_are_no_settings(tmp_path: Path, text: str | bytes, said: str) -> None:
    file = tmp_path / "remuda.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert said in problems(file)[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "none") == [f"{tmp_path / 'none'}: No such file or directory"]
    assert problems(tmp_path) == [f"{tmp_path}: Is a directory"]
    (tmp_path / "loop").symlink_to("loop")
    assert "symbolic links" in problems(tmp_path / "loop")[0]


def test_files_that_a_setting_names_have_to_be_readable(tmp_path: Path) -> None:
    assert problems(None, f"nats.ca={tmp_path}/ca.pem") == [f"--set nats.ca='{tmp_path}/ca.pem': no such file"]
    assert "is a directory" in problems(None, f"nats.seed={tmp_path}")[0]
    (tmp_path / "seed").write_text("")
    assert load(OfCore, None, [f"nats.seed={tmp_path}/seed"]).settings.nats_seed == tmp_path / "seed"
    assert load(OfCore, None, ["nats.seed="]).settings.nats_seed is None


def test_lists_and_times() -> None:
    settings = load(OfCore, None, ["core.names=[a, 'b,c']", "core.snapshots.interval=1.5"]).settings
    assert (settings.names, settings.interval_s) == (("a", "b,c"), 1.5)
    assert load(OfCore, None, ["core.names=a, b"]).settings.names == ("a", "b")
    assert "expected a list" in problems(None, "core.names=[a")[0]
    for wrong in ("nan", "inf", "-1", "1 day"):
        assert problems(None, f"core.snapshots.interval={wrong}")


def test_secrets_are_hidden() -> None:
    url = "nats://user:pass@a:1,nats://token@b:2"
    loaded = load(OfCore, None, ["core.word=hush", f"nats.url={url}"])
    shown = {one.declared.key: one.value for one in effective(loaded)}
    assert (shown["core.word"], shown["nats.url"]) == ("***", "nats://***@a:1,nats://***@b:2")
    said = str(problems(None, "core.word=hush", "nats.url=nats://u:p@h", "log.level=loud"))
    assert "hush" not in said and "u:p" not in said


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(NotSettings):
        read_text(text, Path("remuda.yaml"), ["core.standbys"])


def test_scheduler_administrators_include_the_owner_of_the_process() -> None:
    administrators = load(SchedulerAclSettings, None, ["scheduler.acl=alice ops"]).settings.scheduler_administrators()
    owner = pwd.getpwuid(os.geteuid()).pw_name
    assert administrators == AccessList(frozenset(("alice", owner)), frozenset(("ops",)))


@pytest.mark.parametrize("text", ["a b c", "a,,b", "a,*", "a%b", " * "])
def test_a_wrong_access_list_is_refused(text: str) -> None:
    with pytest.raises(SettingsProblems, match=r"scheduler\.acl=.*(expected|has to)"):
        load(SchedulerAclSettings, None, [f"scheduler.acl={text}"])
