"""Which suites are played in full."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .__main__ import report
from .plan import SMOKE_S, Choice, Passed, choose, record, recorded
from .play import ANSI, FAILED, play, run
from .suite import ROOT, Suite, read

SUITES = [Suite(name, "true", smoke="true", alone=True) for name in "abcd"]
TREES = {suite.name: "now" for suite in SUITES}
COMMIT = f"{1:040x}"  # the turn of b


def passed(**trees: str) -> dict[str, Passed]:
    return {name: Passed("", tree, seconds=150) for name, tree in trees.items()}


def words(choices: list[Choice]) -> dict[str, str]:
    return {choice.suite.name: choice.word for choice in choices}


def test_what_has_changed_is_played_in_full_and_one_by_rotation() -> None:
    choices = choose(SUITES, passed(a="now", b="now", c="before", d="now"), TREES, COMMIT, 1_000)
    assert words(choices) == {"a": "smoke", "b": "full", "c": "full", "d": "smoke"}


def test_what_never_passed_is_due() -> None:
    assert words(choose(SUITES, passed(b="now"), TREES, COMMIT, 10_000)) == dict.fromkeys("abcd", "full")


def test_full_runs_fill_the_time_that_smokes_leave() -> None:
    """The turn of b takes 90 s more than its smoke; one other full run fits."""
    choices = choose(SUITES, passed(**dict.fromkeys("abcd", "before")), TREES, COMMIT, 4 * SMOKE_S + 90 + 90)
    due = "smoke; full is due, no time"
    assert words(choices) == {"a": due, "b": "full", "c": "full", "d": due}
    assert words(choose(SUITES, {}, TREES, COMMIT, 0)) == dict.fromkeys("abcd", due)


def test_the_rotation_goes_on_to_a_suite_that_fits() -> None:
    known = {**passed(a="now", c="now", d="now"), "b": Passed("", "now", seconds=1_000)}
    choices = choose(SUITES, known, TREES, COMMIT, 4 * SMOKE_S + 90)
    assert words(choices) == {"a": "smoke", "b": "smoke", "c": "full", "d": "smoke"}


def test_a_suite_without_a_smoke_is_played_in_full() -> None:
    whole = [Suite("whole", "true")]
    assert words(choose(whole, {}, {"whole": "now"}, COMMIT, 0)) == {"whole": "full"}


def test_suites_beside_others_take_half_their_time() -> None:
    beside = [Suite(name, "true", smoke="true") for name in "ab"]
    choices = choose(beside, passed(a="before", b="before"), TREES, f"{0:040x}", SMOKE_S + 45 + 45)
    assert words(choices) == {"a": "full", "b": "full"}


def test_a_record_is_read_as_it_was_written(tmp_path) -> None:
    written = {"a": Passed("c", "t", 12)}
    record(written, tmp_path / "full.json")
    assert recorded(tmp_path / "full.json") == written
    assert recorded(tmp_path / "none.json") == {}


def test_the_table_names_each_suite_once_and_paths_that_exist() -> None:
    suites = read()
    assert len({suite.name for suite in suites}) == len(suites)
    for suite in suites:
        assert all((ROOT / path).exists() for path in suite.inputs), suite.name


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("FAILED a/test_b.py::test_c - assert 1 == 2", ["a/test_b.py::test_c"]),
        ("FAILED a/test_b.py::test_c[x - y] - assert", ["a/test_b.py::test_c[x - y]"]),
        ("ERROR a/test_b.py::test_c", ["a/test_b.py::test_c"]),
        ("\x1b[31mFAILED\x1b[0m a/test_b.py::test_c", ["a/test_b.py::test_c"]),
        ("it FAILED a/test_b.py::test_c", []),
    ],
)
def test_names_of_failed_tests(output: str, names: list[str]) -> None:
    assert [name.split(" - assert")[0] for name in FAILED.findall(ANSI.sub("", output))] == names


def test_a_line_that_takes_too_long_is_killed_with_its_children() -> None:
    code, output, seconds = run("echo begun; sleep 60 & sleep 60", 0.5)
    assert (code, output.splitlines()[0]) == (124, "begun") and "not done within" in output and seconds < 30
    assert run("exit 3", 10)[0] == 3


def test_the_report_ends_with_why_a_suite_failed(capsys: pytest.CaptureFixture[str]) -> None:
    suite = Suite("mutants", "echo survived: fence; exit 1", once=True)
    outcomes = list(play([Choice(suite, due=True, full=True)], COMMIT))
    assert report(outcomes, 1.0) == 1
    _, shown = capsys.readouterr().out.split("=== mutants failed; the end of its output:\n")
    assert shown.startswith("survived: fence\n") and "failed: mutants\n" in shown


def test_an_endless_test_fails_alone(tmp_path: Path) -> None:
    """The others of its file are played, and each once."""
    endless = "@pytest.mark.timeout(1)\ndef test_a():\n    time.sleep(600)\n\ndef test_b():\n    pass\n"
    (tmp_path / "test_endless.py").write_text(f"import pytest, time\n\n{endless}")
    options = f"-q -p no:cacheprovider -c {ROOT}/pyproject.toml --rootdir {tmp_path} -n 2 --dist loadfile"
    code, output, _ = run(f"{sys.executable} -m pytest {options} {tmp_path}", 60)
    assert code == 1 and "1 failed, 1 passed" in output, output
