"""A first queues.yaml and remuda.yaml, from what an operator answers. Comments say what a key does and takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from remuda_proto.names import QUEUE
from remuda_proto.quantities import show_amount

from .amounts import Amounts, shares, written


class Cluster(StrEnum):
    """The kind of work on the nodes: pods of Kubernetes, work of a resource manager of one's own, batch jobs."""

    KUBERNETES = "kubernetes"
    OWN = "own"
    BATCH = "batch"


GPU_NAMES = {Cluster.KUBERNETES: "nvidia.com/gpu", Cluster.OWN: "gpu", Cluster.BATCH: "gpu"}
_DEFAULT = "default"
# Names that YAML reads as names.
_PLAIN = r"(?!(?i:null|true|false|yes|no|on|off)$)[A-Za-z][A-Za-z0-9_-]*"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers that a first configuration is made of.

    `teams`: the share of each. `capacity`: what all nodes have together. `user_limit`: of each user in a team's queue;
    {}: none. Amounts are in base units.
    """

    cluster: Cluster
    teams: Mapping[str, int]
    capacity: Amounts
    user_limit: Amounts
    preemption: bool


def team(text: str) -> tuple[str, int]:
    """Reads the name and share of `research=60`; without a share it is 1. Raises ValueError."""
    name, separator, share = text.partition("=")
    if not QUEUE.matches(name):
        raise ValueError(f"team {name!r}: expected {QUEUE.expected}")
    if name.lower() == _DEFAULT:
        raise ValueError(f"team {name!r}: this queue is for everyone else")
    if separator and not (share.isdecimal() and 0 < int(share) <= 1_000_000):
        raise ValueError(f"team {name!r}: share {share!r}: expected a whole number from 1 to 1000000")
    return name, int(share) if separator else 1


def queues(answers: Answers) -> str:
    """Returns the text of queues.yaml."""
    return "".join(f"{line}\n" for line in _queues(answers))


def settings(answers: Answers) -> str:
    """Returns the text of remuda.yaml."""
    return "".join(f"{line}\n" for line in _settings(answers))


def _queues(answers: Answers) -> Iterator[str]:
    packs = answers.cluster is not Cluster.OWN
    yield from (
        "# The queues of remuda. `remuda up` watches this file: a change is in force at once. Check it before:",
        "#   remuda config check queues.yaml",
        "# docs/configuration.md has all keys.",
        "partitions:",
        "  - name: default",
        "    # Which node is taken first: binpacking fills one after the other, fair spreads the work.",
        "    nodesortpolicy:",
        f"      type: {'binpacking' if packs else 'fair'}",
        "    # Whether a queue takes back what is guaranteed to it, by ending work of queues above their guarantee.",
        "    preemption:",
        f"      enabled: {'true' if answers.preemption else 'false'}",
        "    # Which queue an application goes to: the first rule that leads to one.",
        "    placementrules:",
        "      - name: provided # the queue that the application names, such as root." + next(iter(answers.teams)),
    )
    if answers.cluster is Cluster.KUBERNETES:
        yield "      - name: tag # the queue called like the namespace of the pod"
        yield "        value: namespace"
    elif answers.cluster is Cluster.BATCH:
        yield "      - name: primarygroup # the queue called like the group of the user"
    yield from (
        "      - name: fixed # all others",
        f"        value: root.{_DEFAULT}",
        "    queues:",
        "      - name: root",
        "        # Everyone may submit here and below. To restrict it, name users and groups: 'ann,ben group,group'.",
        "        submitacl: '*'",
        "        queues:",
    )
    parts = {name: shares(name, amount, answers.teams) for name, amount in answers.capacity.items()}
    for place, (name, share) in enumerate(answers.teams.items()):
        guaranteed = {resource: _whole(resource, amounts[name]) for resource, amounts in parts.items() if amounts[name]}
        yield from _team(answers, name, share, guaranteed, is_first=place == 0)
    yield "          # Everyone else: nothing is guaranteed, and all that is idle may be used."
    yield f"          - name: {_DEFAULT}"


def _team(answers: Answers, name: str, share: int, guaranteed: Amounts, is_first: bool) -> Iterator[str]:
    yield f"          # {share} of {sum(answers.teams.values())} shares of {_flow(answers.capacity)}"
    yield f"          - name: {_quoted(name)}"
    yield "            resources:"
    if is_first:
        yield "              # The queue gets this before others. While it is idle, others use it."
    yield f"              guaranteed: {_flow(guaranteed)}"
    if is_first:
        yield "              # The queue never exceeds this. Without a maximum it uses all that is idle."
    yield f"              # max: {_flow(answers.capacity)}"
    if is_first:
        yield "            # Applications that run at a time; 0: no limit."
        yield "            maxapplications: 0"
    if answers.user_limit:
        yield "            limits:"
        if is_first:
            yield "              # '*' stands for each user who is not named in a limit before it."
        yield "              - limit: each user"
        yield "                users: ['*']"
        yield f"                maxresources: {_flow(answers.user_limit)}"


def _quoted(name: str) -> str:
    """In quotes where YAML would read something else than a name."""
    return name if re.fullmatch(_PLAIN, name) else f"'{name}'"


def _whole(resource: str, amount: int) -> int:
    """Rounded down to whole cores and GiB, where it is more than one."""
    step = {"vcore": 1000, "memory": 2**30}.get(resource, 1)
    return amount - amount % step if amount >= step else amount


def _flow(amounts: Amounts) -> str:
    return f"{{{', '.join(f'{name}: {amount}' for name, amount in written(amounts).items())}}}"


def _settings(answers: Answers) -> Iterator[str]:
    yield from (
        "# The settings of remuda's service processes, which read them when they start. Check them before:",
        "#   remuda settings check remuda.yaml",
        "# docs/settings.md has all settings; `remuda settings show` those that count here.",
        "log:",
        "  level: info # debug, info, warning, error",
        "  format: console # json: for a collector of logs",
        "# The web page and REST; the page is open to this machine only.",
        "web:",
        "  port: 9080",
        "# Which resource managers may register, by name: names and patterns. Without this setting, all may.",
        "# rms:",
        "#   allowed: [my-cluster, 'gpu-*']",
        "# Users who may change queues, drain nodes and forget resource managers, beside the one who started remuda.",
        "# scheduler:",
        "#   acl: 'ann,ben operators'",
    )
    if answers.cluster is Cluster.BATCH:
        yield "# Where the groups of a user come from: the operating system. Also: request, ldap."
        yield "groups:"
        yield "  resolver: os"
    if answers.cluster is Cluster.KUBERNETES:
        yield from (
            "# The front end, `remuda run kubernetes --settings remuda.yaml`, places the pods that name remuda.",
            "kubernetes:",
            "  rm: kubernetes # the name of the cluster",
            "  # kubeconfig: /home/ann/.kube/config # without it, the service account of the pod",
        )
    yield "# How many cores follow each resource manager, ready to take over."
    yield "core:"
    yield "  standbys: 1"


def shown(amounts: Amounts) -> str:
    """Amounts as options take them: `vcore=64,memory=256Gi`."""
    return ",".join(f"{name}={show_amount(name, amount)}" for name, amount in amounts.items())
