"""`remuda init`: write a first queues.yaml and remuda.yaml from options, questions and defaults, checked before."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer

from remuda_config import load

from ..drafts import fresh
from ..drafts.amounts import Amounts, parse_list
from ..errors import UserError
from ..local.services import SERVICES, check_settings
from ..terminal.output import console

T = TypeVar("T")

_TEAMS = ("research=60", "services=40")
_CAPACITY = "vcore=64,memory=256Gi"
_KINDS = {
    fresh.Cluster.KUBERNETES: "pods of Kubernetes",
    fresh.Cluster.OWN: "work of a resource manager of your own",
    fresh.Cluster.BATCH: "batch jobs, on CPUs or GPUs",
}


@dataclass(frozen=True, slots=True)
class Given:
    """The options of `remuda init`; None: an option that was not given."""

    cluster: fresh.Cluster | None
    teams: Sequence[str] | None
    capacity: str | None
    gpus: int | None
    user_limit: str | None
    preemption: bool | None


def init(directory: Path, given: Given, yes: bool, force: bool) -> None:
    """Writes a first configuration and settings. Raises UserError; then nothing is written."""
    if not yes and not sys.stdin.isatty():
        raise UserError(
            "init asks questions: run it on a terminal, or add --yes for the defaults of what no option says"
        )
    files = {name: directory / name for name in ("queues.yaml", "remuda.yaml")}
    taken = [str(file) for file in files.values() if file.exists() or file.is_symlink()]
    if taken and not force:
        raise UserError(f"{' and '.join(taken)}: there already; --force replaces what is there")
    answers = _answers(given, yes)
    texts = {"queues.yaml": fresh.queues(answers), "remuda.yaml": fresh.settings(answers)}
    load(texts["queues.yaml"])
    _check_settings(texts["remuda.yaml"])
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            file.write_text(texts[name], encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    _show_next(answers, files["queues.yaml"], files["remuda.yaml"])


def _check_settings(text: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "remuda.yaml"
        file.write_text(text, encoding="utf-8")
        check_settings(SERVICES, file, (), environment=False)


# Answers


def _answers(given: Given, yes: bool) -> fresh.Answers:
    cluster = given.cluster or (fresh.Cluster.OWN if yes else _ask_cluster())
    teams = _teams(given.teams or (_TEAMS if yes else ())) or _ask(
        "Teams and their shares, such as research=60 services=40", " ".join(_TEAMS), lambda text: _teams(text.split())
    )
    if given.capacity is not None:
        capacity = _amounts("--capacity", given.capacity)
    else:
        capacity = _amounts("", _CAPACITY)
        if not yes:
            capacity = _ask("What do all nodes have together?", _CAPACITY, lambda text: _amounts("", text))
    gpus = given.gpus
    if gpus is None:
        gpus = 0 if yes else _ask("How many GPUs?", "0", _count)
    if gpus:
        capacity = {**capacity, fresh.GPU_NAMES[cluster]: gpus}
    if given.user_limit is not None:
        user_limit = _amounts("--user-limit", given.user_limit) if given.user_limit else {}
    else:
        question = "What may each user have at most in a team's queue? (empty: no limit)"
        user_limit = {} if yes else _ask(question, "", lambda text: _amounts("", text) if text else {})
    preemption = given.preemption
    if preemption is None:
        preemption = True if yes else typer.confirm("May a team end work of others to get its share?", default=True)
    return fresh.Answers(cluster, teams, capacity, user_limit, preemption)


def _ask_cluster() -> fresh.Cluster:
    for name, what in _KINDS.items():
        console.print(f"  {name:<11} {what}", markup=False)
    return _ask("What do your nodes run?", fresh.Cluster.OWN.value, _cluster)


def _ask(question: str, default: str, read: Callable[[str], T]) -> T:
    """Asks until the answer can be read."""
    while True:
        try:
            return read(str(typer.prompt(question, default=default, show_default=bool(default))).strip())
        except UserError as error:
            console.print(str(error), markup=False, soft_wrap=True)


def _cluster(text: str) -> fresh.Cluster:
    try:
        return fresh.Cluster(text)
    except ValueError:
        raise UserError(f"{text!r}: expected {', '.join(fresh.Cluster)}") from None


def _teams(texts: Sequence[str]) -> dict[str, int]:
    teams: dict[str, int] = {}
    for text in texts:
        try:
            name, share = fresh.team(text)
        except ValueError as error:
            raise UserError(str(error)) from None
        if name.lower() in map(str.lower, teams):
            raise UserError(f"team {name!r} is given twice")
        teams[name] = share
    return teams


def _amounts(option: str, text: str) -> Amounts:
    try:
        return parse_list(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}".removeprefix(": ")) from None


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UserError(f"{text!r}: expected a whole number")
    return int(text)


# What comes next


def _show_next(answers: fresh.Answers, queues: Path, settings: Path) -> None:
    console.print(f"{queues} and {settings} are written. Next:", soft_wrap=True, markup=False)
    for command, what in next_commands(answers.cluster, queues, settings, next(iter(answers.teams), "default")):
        console.print(f"  {command}", soft_wrap=True, markup=False)
        console.print(f"      {what}", style="dim", soft_wrap=True, markup=False)


def next_commands(cluster: fresh.Cluster, queues: Path, settings: Path, leaf: str) -> list[tuple[str, str]]:
    """Commands that work as they stand, each with what it does. `leaf`: a queue below root, for simulated work."""
    file, also = shlex.quote(str(queues)), shlex.quote(str(settings))
    start = (f"remuda up --config {file} --settings {also}", "start the scheduler with these queues on this machine")
    if cluster is fresh.Cluster.KUBERNETES:
        second = (
            f"remuda run kubernetes --settings {also} --set kubernetes.kubeconfig=$HOME/.kube/config",
            "in a second terminal: place the pods with schedulerName remuda",
        )
    else:
        second = (
            f"remuda load --nodes 4 --apps 5 --asks 40 --queue root.{leaf} --keep",
            "in a second terminal: simulated nodes, and in one of these queues more work than they have room for",
        )
    return [
        (f"remuda config check {file}", "after each edit: all problems, each with its line"),
        start,
        second,
        ("remuda queues", "what each queue uses, is guaranteed and waits for; `remuda explain` says why"),
    ]
