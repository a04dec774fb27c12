"""What a description of all pools would do, beside what it does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from integrations.peloton.tests.test_apply_pools import TREE, Board
from remuda_peloton import commands
from remuda_peloton.limits import EPSILON
from remuda_peloton.preview import ChangeRow, FieldRow, Preview, preview
from remuda_peloton.rules.pools import STATIC, InvalidPool, KindConfig, PoolConfig, find_by_path
from remuda_peloton.rules.resources import KINDS, ZERO, by_kind
from remuda_peloton.rules.task import Task
from remuda_peloton.shell.pools_file import PoolsFile
from remuda_peloton.wire import pool_rpcs

CAPACITY = 10.0


def described(text: str) -> tuple[commands.DescribedPool, ...]:
    command = pool_rpcs.command_of(PoolsFile(text).request)
    return pool_rpcs.with_ids(command, "00000000-0000-0000-0000-000000000009").pools


def previewed(board: Board, text: str) -> Preview:
    return preview(board.core.state, board.core.settings, described(text))


def run_tasks(board: Board, path: str, count: int) -> None:
    """Preemptible tasks with 1 cpu each, admitted."""
    gangs = tuple((Task(f"{path}-{n}", f"{path}-{n}-1", (1.0, 0.0, 0.0, 0.0), preemptible=True),) for n in range(count))
    board.do(commands.EnqueueGangs(board.id_of(path) or "", gangs))
    board.do(commands.CalculateEntitlements())
    board.do(commands.Admit())


def test_changes_are_shown_field_by_field() -> None:
    board = Board()
    assert [(one.path, one.change) for one in previewed(board, TREE).changes] == [
        ("/a", "created"), ("/c", "created"), ("/a/b", "created"),
    ]  # fmt: skip
    board.apply(TREE)
    text = TREE.replace("share: 2", "share: 3").replace("controller_limit: 20", "slack_limit: 5")
    text = text.replace(
        "  - name: c\n    cpu: {limit: 10}\n    owning_team: data\n", "  - {name: d, cpu: {limit: 1}}\n"
    )
    found = previewed(board, text)
    assert found.changes == [
        ChangeRow("/c", "deleted", []),
        ChangeRow("/a", "changed", [
            FieldRow("cpu.share", 2.0, 3.0), FieldRow("controller_limit", 20.0, None),
            FieldRow("slack_limit", None, 5.0),
        ]),
        ChangeRow("/d", "created", [FieldRow("cpu.limit", 0.0, 1.0)]),
    ]  # fmt: skip
    assert previewed(board, TREE) == Preview([], [], 0, 0)


def test_tasks_above_the_new_entitlement_are_those_that_are_preempted() -> None:
    board = Board()
    board.apply("pools: [{name: a, cpu: {limit: 10}}, {name: b, cpu: {limit: 10}}]")
    run_tasks(board, "/a", 6)
    text = "pools: [{name: a, cpu: {limit: 4}}, {name: b, cpu: {limit: 10}}]"
    a, b = previewed(board, text).effects
    assert (a.path, a.before["cpu"], a.after["cpu"], a.over, a.tasks) == ("/a", 8.0, 4.0, {"cpu": 2.0}, 2)
    assert (b.path, b.before["cpu"], b.after["cpu"], b.over, b.tasks) == ("/b", 2.0, 3.0, {}, 0)
    board.apply(text)
    for _ in range(board.core.settings.sustained_over_allocation_count):
        board.do(commands.Preempt())
    assert board.core.state.runs.keys() - _ready(board) == set(a.first_tasks)


def _ready(board: Board) -> set[str]:
    return {task for task, run in board.core.state.runs.items() if run.state == "READY"}


def test_what_is_refused_is_what_the_application_refuses() -> None:
    board = Board()
    board.apply(TREE)
    board.enqueue("/c")
    before = msgspec.json.encode(board.core.state.configs())
    for text in (
        "pools: [{name: a, cpu: {limit: 5}}]",
        "pools: [{name: c, cpu: {limit: 11}}]",
        TREE + "    pools: [{name: d, cpu: {limit: 1}}]\n",
        "pools: [{name: c, cpu: {limit: 1}, controller_limit: 101}]",
    ):
        with pytest.raises(InvalidPool) as refused:
            previewed(board, text)
        answer = board.do(commands.ApplyPools(described(text)))
        assert isinstance(answer, InvalidPool)
        assert (str(answer), answer.details) == (str(refused.value), refused.value.details) and not board.facts
    assert msgspec.json.encode(board.core.state.configs()) == before


def test_gang_that_was_killed_is_in_nobodys_way() -> None:
    board = Board()
    board.apply(TREE)
    board.enqueue("/c")
    board.do(commands.KillTasks(("t1",)))
    assert [one.path for one in previewed(board, "pools: []").changes] == ["/a/b", "/c", "/a"]


def test_lists_are_bounded() -> None:
    board = Board()
    pools = "".join(f"\n- {{name: p{number}, cpu: {{limit: 1}}}}" for number in range(500))
    found = previewed(board, f"pools:{pools}")
    assert (len(found.changes), found.more_changes) == (400, 100)
    assert (len(found.effects), found.more_effects) == (400, 100)


AMOUNT = st.integers(0, 10).map(float)
LEAF = st.tuples(AMOUNT, AMOUNT, st.integers(0, 3).map(float), st.booleans())


def tree_of(leaves: dict[str, tuple[float, float, float, bool]]) -> tuple[commands.DescribedPool, ...]:
    """/x/a: below /x."""
    found = []
    for path in sorted({"/" + path.split("/")[1] for path in leaves if path.count("/") > 1}):
        kinds = tuple(KindConfig(kind, CAPACITY * 4, CAPACITY * 4) for kind in KINDS)
        found.append(commands.DescribedPool(path, PoolConfig(path, "", resources=kinds)))
    for path, (reservation, more, share, static) in leaves.items():
        kind = KindConfig("cpu", reservation, reservation + more, share, STATIC if static else "ELASTIC")
        found.append(commands.DescribedPool(path, PoolConfig(path, "", resources=(kind,))))
    return tuple(found)


TREES = st.dictionaries(st.sampled_from(("/a", "/b", "/x/a", "/x/b", "/y/a")), LEAF).map(tree_of)


@example((), tree_of({"/a": (0.0, 0.0, 0.0, False)}), {})  # a new pool that is entitled to nothing has no effect
@given(TREES, TREES, st.dictionaries(st.sampled_from(("/a", "/x/a", "/y/a")), st.integers(1, 8)))
def test_preview_shows_what_the_application_does(first: Any, second: Any, tasks: dict[str, int]) -> None:
    board = Board()
    board.do(commands.SetCapacity((CAPACITY * 10, 0.0, 0.0, 0.0), 0.0))
    board.do(commands.ApplyPools(first))
    for path, count in tasks.items():
        if (pool_id := board.id_of(path)) is not None and board.core.state.pools[pool_id].is_leaf:
            run_tasks(board, path, count)
    board.do(commands.CalculateEntitlements())
    state = board.core.state
    before = {one.config.id: (one.config, one.entitlement, one.slack) for one in state.pools.values()}
    try:
        found: Preview | InvalidPool = preview(state, board.core.settings, second)
    except InvalidPool as problem:
        found = problem
    assert before == {one.config.id: (one.config, one.entitlement, one.slack) for one in state.pools.values()}
    answer = board.do(commands.ApplyPools(second))
    if isinstance(found, InvalidPool):
        assert str(found) == str(answer)
        return
    assert tuple(f"{one.path} {one.change}" for one in found.changes) == answer
    effects = {one.path: one for one in found.effects}
    for pool_id, pool in board.core.state.pools.items():
        path = next(
            (path for path in ("/a", "/b", "/x/a", "/x/b", "/y/a", "/x", "/y") if _id(board, path) == pool_id), ""
        )
        if not path:
            continue
        was = before[pool_id][1] if pool_id in before else ZERO  # new
        expected = effects[path].after if path in effects else by_kind(was)
        assert by_kind(pool.entitlement) == pytest.approx(expected, abs=EPSILON), path


def _id(board: Board, path: str) -> str | None:
    return find_by_path(path, board.core.state.configs())
