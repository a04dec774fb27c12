"""All pools at once: from a file, with lines of problems, and as one decision."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from remuda_peloton import commands
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.facts import EntitlementsChanged, Fact
from remuda_peloton.rules.pools import find_by_path
from remuda_peloton.rules.task import Task
from remuda_peloton.shell.pools_file import PoolsFile, PoolsFileError, fields_of_respool
from remuda_peloton.wire import pool_rpcs
from remuda_peloton.wire.pool_fields import set_field
from remuda_proto.peloton.api.v0.respool import respool_pb2 as respool
from remuda_proto.remuda.resmgr.v1 import pools_pb2 as pb

TREE = """
pools:
  - name: a
    cpu: {reservation: 6, limit: 10, share: 2}
    controller_limit: 20
    pools:
      - name: b
        cpu: {reservation: 2, limit: 10, type: STATIC}
  - name: c
    cpu: {limit: 10}
    owning_team: data
"""


class Board:
    def __init__(self) -> None:
        self.core = Core()
        self.facts: list[Fact] = []
        self.do(commands.SetCapacity((10.0, 0.0, 0.0, 0.0), 0.0))
        self.facts = []

    def do(self, command: commands.Command) -> Any:
        self.facts, answer = self.core.handle(command, 1_000)
        check(self.core.state)
        return answer

    def apply(self, text: str) -> list[str]:
        """What has changed. Raises PoolsFileError."""
        rpc, described = pool_rpcs.APPLY_POOLS, PoolsFile(text)
        assert rpc.command is not None and rpc.answer is not None
        command = pool_rpcs.with_id(rpc.command(described.request), str(uuid.UUID(int=7)))
        answer = rpc.answer(described.request, self.do(command))
        assert isinstance(answer, pb.ApplyPoolsResponse)
        if answer.problem:
            raise described.problem(answer)
        return list(answer.changes)

    def id_of(self, path: str) -> str | None:
        return find_by_path(path, self.core.state.configs())

    def enqueue(self, path: str) -> None:
        gang = (Task("t1", "t1-1", (1.0, 0.0, 0.0, 0.0), preemptible=True),)
        assert not self.do(commands.EnqueueGangs(self.id_of(path) or "", (gang,))).failures


@pytest.fixture
def board() -> Board:
    return Board()


def test_pools_are_created_changed_and_deleted_at_once(board: Board) -> None:
    assert board.apply(TREE) == ["/a created", "/c created", "/a/b created"]
    assert sum(isinstance(fact, EntitlementsChanged) for fact in board.facts) == 1
    ids = {path: board.id_of(path) for path in ("/a", "/a/b", "/c")}
    config = board.core.state.pools[ids["/a/b"] or ""].config
    assert (config.kind("cpu").type, config.kind("cpu").reservation, config.kind("cpu").share) == ("STATIC", 2.0, 1.0)
    assert board.apply(TREE) == [] and board.facts == []
    changed = TREE.replace("share: 2", "share: 3").replace(
        "- name: c\n    cpu: {limit: 10}\n    owning_team: data\n", ""
    )
    assert board.apply(changed) == ["/c deleted", "/a changed"]
    assert board.id_of("/a") == ids["/a"] and board.id_of("/c") is None


def test_reservation_moves_between_siblings_in_one_step(board: Board) -> None:
    """One after the other, either change would break a rule."""
    board.apply("pools: [{name: a, cpu: {reservation: 8, limit: 10}}, {name: b, cpu: {reservation: 2, limit: 10}}]")
    assert board.apply(
        "pools: [{name: a, cpu: {reservation: 2, limit: 10}}, {name: b, cpu: {reservation: 8, limit: 10}}]"
    ) == ["/a changed", "/b changed"]


def test_pool_with_tasks_stays_and_nothing_changes(board: Board) -> None:
    board.apply(TREE)
    board.enqueue("/c")
    with pytest.raises(PoolsFileError, match="pool /c is not described, and has tasks"):
        board.apply("pools: [{name: a, cpu: {limit: 5}}]")
    with pytest.raises(PoolsFileError, match="line 9: pool /c: is a leaf with tasks"):
        board.apply(TREE + "    pools: [{name: d, cpu: {limit: 1}}]\n")
    assert board.facts == [] and board.apply(TREE) == []
    board.do(commands.KillTasks(("t1",)))
    assert board.apply("pools: []")[0] == "/a/b deleted"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the text is empty, expected `pools`"),
        ("pools: [", "line 2: no YAML: .*"),
        ("queues: []", "line 1: the text has 'queues', expected some of pools"),
        ("pools:\n  - name: a\n    cpu: {limit: x}", "line 3: cpu.limit is 'x', expected a number"),
        ("pools:\n  - name: a\n    cpu: {limit: .inf}", "line 3: cpu.limit is '.inf', expected a number"),
        ("pools:\n  - name: a\n    cpu: {share: 2}", "line 3: cpu.limit is missing, .*"),
        (
            "pools:\n  - name: a\n    cpu: {limit: 1, type: FIXED}",
            "line 3: cpu.type is 'FIXED', expected ELASTIC or .*",
        ),
        ("pools:\n  - cpu: {limit: 1}", "line 2: name is missing, expected the name of the pool"),
        ("pools:\n  - name: a/b", "line 2: name is 'a/b', expected a name without /"),
        ("pools:\n  - name: a\n  - name: a", "line 3: name is 'a' again, as in line 2"),
        ("pools:\n  - name: a\n    limit: 1", "line 3: a pool has 'limit', expected some of name, cpu, .*"),
        (
            "pools:\n  - name: a\n    cpu: {limit: 11}",
            "line 2: pool /a: limit of cpu is 10.0, expected at least 11.0, that of /a",
        ),
        (
            "pools:\n  - name: a\n    cpu: {limit: 4}\n    pools:\n      - name: b\n        cpu: {limit: 5}",
            "line 2: pool /a: limit of cpu is 4.0, expected at least 5.0, that of /a/b",
        ),
        (
            "pools:\n  - name: a\n    cpu: {reservation: 5, limit: 4}",
            "line 2: pool /a: reservation of cpu is 5.0, expected at most the limit 4.0",
        ),
        ("pools:\n  - name: a\n    controller_limit: 101", "line 2: pool /a: controllerLimit.maxPercent is 101.0, .*"),
        ("pools: 7", "line 1: pools is '7', expected a list"),
        ("pools:\n- 7", "line 2: a pool is '7', expected a mapping with some of name, .*"),
        ("pools:\n- name: [a]", "line 2: name is a sequence, expected one value"),
        ("pools:\n- name: a\n  cpu: {limit: 1}\n  cpu: {limit: 2}", "line 4: a pool has cpu twice, expected it once"),
        (
            f"pools:\n- name: a\n  description: {'x' * 257}",
            "line 3: description has 257 characters, expected at most 256",
        ),
        ("pools:\n- name: a\n  memory: {limit: 1, share: -1}", "line 2: pool /a: share of memory is -1.0, expected .*"),
        ('pools:\n- name: "a\\a"', "line 2: pool /a\\a: name is 'a\\\\x07', expected 1 to 256 printable characters .*"),
    ],
)
def test_problem_names_line_and_field(board: Board, text: str, problem: str) -> None:
    with pytest.raises(PoolsFileError, match=f"^{problem}$"):
        board.apply(text)
    assert board.facts == [] and list(board.core.state.pools) == ["root"]


def test_pools_that_stay_as_they_are_outlive_hosts(board: Board) -> None:
    board.apply(TREE)
    board.do(commands.SetCapacity((5.0, 0.0, 0.0, 0.0), 0.0))
    assert board.apply(TREE.replace("cpu: {reservation: 2", "cpu: {reservation: 1")) == ["/a/b changed"]
    with pytest.raises(PoolsFileError, match="reservation of cpu is 5.0, expected at least 6.0, those of its children"):
        board.apply(TREE.replace("share: 2", "share: 3"))


def test_aliases_do_not_stand_for_more_pools_than_there_may_be() -> None:
    lines = ["pools:", "- &p0 {name: a}"]
    lines += [
        f"- &p{n} {{name: b{n}, pools: [{{name: l, pools: [*p{n - 1}]}}, {{name: r, pools: [*p{n - 1}]}}]}}"
        for n in range(1, 15)
    ]
    with pytest.raises(PoolsFileError, match="there are more than 10000 pools, expected fewer"):
        PoolsFile("\n".join(lines))


def test_answer_names_as_many_changes_as_fit_into_the_log(board: Board) -> None:
    pools = "".join(f"\n- {{name: {'x' * 250}{number}}}" for number in range(1_000))
    changes = board.apply(f"pools:{pools}")
    assert sum(map(len, changes)) < 140_000 and changes[-1] == f"and {1_000 - len(changes) + 1} more changes"


def test_gang_that_was_killed_does_not_keep_its_pool(board: Board) -> None:
    board.apply(TREE)
    board.enqueue("/c")
    board.do(commands.KillTasks(("t1",)))
    assert board.apply("pools: [{name: c, pools: [{name: d}]}]")[-1] == "/c/d created"


def test_a_pool_as_the_command_line_of_peloton_reads_it() -> None:
    text = """
name: Batch
owningteam: data
ldapgroups: []
policy: 1
controllerlimit: {maxpercent: 20}
resources:
- {kind: cpu, reservation: 1, limit: 2, share: 1, type: 2}
- {Kind: memory, Limit: 100}
"""
    fields = fields_of_respool(text)
    assert fields == {
        "owning_team": "data", "controller_limit": "20", "cpu.reservation": "1", "cpu.limit": "2", "cpu.share": "1",
        "cpu.type": "STATIC", "memory.limit": "100",
    }  # fmt: skip
    config = respool.ResourcePoolConfig()
    for key, value in fields.items():
        set_field(config, key, value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the text is empty, expected a resource pool"),
        ("name: A\nowner: b", "line 2: the pool has 'owner', expected some of name, .*"),
        ("name: A\nresources:\n- {limit: 2}", "line 3: kind is missing, expected one of cpu, .*"),
        ("ldapgroups: [a]", "line 1: ldapgroups: expected none; .*"),
    ],
)
def test_problems_of_such_a_pool(text: str, problem: str) -> None:
    with pytest.raises(PoolsFileError, match=f"^{problem}$"):
        fields_of_respool(text)
