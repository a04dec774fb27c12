"""Plays the kinds that ask rules: entitlement, validation, ranker, scorer, transition."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from integrations.peloton.tests.conformance import pools
from integrations.peloton.tests.conformance.compare import Difference, equal, subset
from integrations.peloton.tests.conformance.tables import Case
from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.decide import preemption
from remuda_peloton.decide.entitle import usage
from remuda_peloton.decide.requeue import expired
from remuda_peloton.evolve import evolve
from remuda_peloton.facts import Fact, HostsRanked
from remuda_peloton.rules import lifecycle, ranking, resources
from remuda_peloton.rules.entitlement import PoolTree
from remuda_peloton.rules.lifecycle import all_cycles_complete, cycle_complete, extra_s
from remuda_peloton.rules.pools import ROOT, InvalidPool, PoolConfig, check_path, validate
from remuda_peloton.rules.resources import vector
from remuda_peloton.rules.task import Allocation
from remuda_peloton.settings import Settings
from remuda_peloton.state import State
from remuda_peloton.wire.rpcs import RPCS
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2

Differences = Iterator[Difference]
TYPES = {"UNKNOWN": 0, "BATCH": 1, "STATELESS": 2, "STATEFUL": 3, "DAEMON": 4}


def decided(decision: Generator[Fact, None, Any], state: State) -> Any:
    """Apply the facts as they come, and return the answer."""
    try:
        while True:
            evolve(state, next(decision))
    except StopIteration as end:
        return end.value


def entitlement(case: Case) -> Differences:
    given, expect = case.given, case.expect
    if "op" in given:
        yield from _arithmetic(given, expect)
        return
    core = Core()
    core.state = state = pools.state_with(case.pools(given["pools"]))
    for pool_id, demand in given.get("demand", {}).items():
        state.pools[pool_id].demand = vector(demand)
    for pool_id, demand in given.get("slack_demand", {}).items():
        state.pools[pool_id].slack_demand = vector(demand)
    for pool_id, held in given.get("allocation", {}).items():
        state.pools[pool_id].allocation = Allocation(**{name: vector(one) for name, one in held.items()})
    core.handle(commands.SetCapacity(vector(given["capacity"]), given["slack_capacity"].get("cpu", 0.0)), 0)
    tree = PoolTree(state.configs())
    summed = usage(tree, [state.pools[pool_id] for pool_id in tree.ids])
    for one in expect["vectors"]:
        pool, place = state.pools[one["pool"]], tree.ids.index(one["pool"])
        held = {
            "entitlement": pool.entitlement,
            "slack_entitlement": pool.slack,
            "non_slack_entitlement": pool.non_slack,
            "demand": tuple(summed.demand[place].tolist()),
            "slack_demand": tuple(summed.slack_demand[place].tolist()),
            "allocation_total": tuple((summed.held + summed.slack_held)[place].tolist()),
            "root_reservation": state.pools[ROOT].reservation,
            "root_limit": state.pools[ROOT].config.amounts("limit"),
            "controller_limit": pool.controller_limit or resources.ZERO,
        }[one["vector"]]
        for kind, value in pools.amounts(held, one["values"]).items():
            ours = {"exact": value, "trunc": math.floor(value + 1e-6), "round": math.floor(value + 0.5)}[one["compare"]]
            yield from equal(f"{one['pool']}.{one['vector']}.{kind}", ours, one["values"][kind])


def _arithmetic(given: dict[str, Any], expect: dict[str, Any]) -> Differences:
    a, b = vector(given["a"]), vector(given["b"])
    if given["op"] == "less_or_equal":
        yield from equal("result", resources.fits(a, b), expect["result"])
        return
    result = {"subtract": resources.subtract, "min": resources.minimum}[given["op"]](a, b)
    yield from subset("result", resources.by_kind(result), expect["result"])


def validation(case: Case) -> Differences:
    given, expect = case.given, case.expect
    yield from _validated("rules", given, expect, case, given["rules"])
    if expect.get("whole_chain") is not None:
        chain = ["pool", "cycle", "parent", "siblings", "children_reservations", "controller_limit"]
        whole = expect if expect["whole_chain"] == "same" else {"valid": False, "error": expect["whole_chain"]}
        yield from _validated("whole_chain", given, whole, case, chain)


def _validated(where: str, given: dict[str, Any], expect: dict[str, Any], case: Case, rules: list[str]) -> Differences:
    known = {one["id"]: pools.pool_config(one) for one in case.pools(given.get("tree", []))}
    config: PoolConfig | None = None
    try:
        if "path" in rules:
            check_path(given.get("path", ""))
            rules = [rule for rule in rules if rule != "path"]
        if rules:
            config = validate(pools.pool_config(given.get("config") or {}), known, rules)
        error: dict[str, Any] | None = None
    except InvalidPool as problem:
        error = {"code": problem.code, **problem.details}
    yield from equal(f"{where}.valid", error is None, expect["valid"])
    if expect.get("error") is not None:
        yield from subset(f"{where}.error", error or {}, expect["error"])
    if config is not None and "policy" in expect:
        yield from equal("policy", config.policy, expect["policy"])
    if config is not None and "resources" in expect:
        ours = {one.kind: msgspec.to_builtins(one) for one in config.resources}
        theirs = expect["resources"]
        by_kind = theirs if isinstance(theirs, dict) else {one["kind"]: one for one in theirs}
        yield from subset("resources", ours, by_kind)


def ranker(case: Case) -> Differences:
    given, expect = case.given, case.expect
    if given["op"] == "rank":
        runs = [pools.run_of(one, "p") for one in given["tasks"]]
        chosen = ranking.victims(runs, vector(given["free"]["non_slack"]), vector(given["free"]["slack"]))
        yield from equal("evict", [run.task.id for run in chosen], expect["evict"])
        return
    state = pools.state_with([{"id": "p", "parent": ROOT}])
    pool = state.pools["p"]
    pools.set_entitlement(state, "p", given["entitlement"])
    if given["op"] == "eligibility":
        settings = Settings(sustained_over_allocation_count=given["sustained_over_allocation_count"])
        count = 0
        for cycle in given["cycles"]:
            pool.allocation = Allocation(**{name: vector(one) for name, one in cycle.items()})
            over = preemption.over_allocation(pool) != (resources.ZERO, resources.ZERO)
            count = count + 1 if over else 0
        yield from equal("eligible", preemption.is_eligible(count, settings), expect["eligible"])
        return
    runs = [pools.run_of(one, "p") for one in given["evict"]]
    for number, run in enumerate(runs, 1):
        state.last_number = number
        pools.track_as_it_is(state, run)
    pool.allocation = Allocation(**{name: vector(one) for name, one in given["allocation"].items()})
    for _ in range(given.get("repeat", 1)):
        decided(preemption.evict(state, Settings(), runs, commands.REVOKE_RESOURCES), state)
    if "preemption_queue" in expect:
        yield from equal("preemption_queue", len(state.candidates), expect["preemption_queue"])
    for task_id, theirs in expect.get("states", {}).items():
        yield from equal(f"states.{task_id}", state.runs[task_id].state, theirs)
    for name, theirs in expect.get("allocation", {}).items():
        ours = pools.amounts(getattr(pool.allocation, name), theirs)
        yield from subset(f"allocation.{name}", ours, theirs)
    if "over_count" in expect:
        yield from equal("over_count", pool.over_count, expect["over_count"])
    if "allocation_fits_entitlement" in expect:
        fits = preemption.over_allocation(pool) == (resources.ZERO, resources.ZERO)
        yield from equal("allocation_fits_entitlement", fits, expect["allocation_fits_entitlement"])


def scorer(case: Case) -> Differences:
    given, expect = case.given, case.expect
    if given.get("op") == "head":
        state = State()
        evolve(state, HostsRanked(tuple(given["ordered"])))
        question = RPCS["GetHostsByScores"].question
        assert question is not None
        response = question(state, resmgrsvc_pb2.GetHostsByScoresRequest(limit=given["limit"]))
        yield from equal("hosts", list(response.hosts), expect["hosts"])
        return
    if given.get("op") == "error":
        # Without a shared host pool nothing is ranked, and the former order stays.
        yield from subset("hosts", given.get("ordered", []), expect.get("hosts", given.get("ordered", [])))
        return
    tasks = {
        host: [
            ranking.HostTask(
                one["pool"], TYPES[one["type"]], one["state"], one["priority"], one["preemptible"], one["controller"],
                one.get("run_time_s"),
            )
            for one in listed
        ]
        for host, listed in given["tasks"].items()
    }  # fmt: skip
    ordered = ranking.order(given["hosts"], tasks)
    if "hosts" in expect:
        yield from equal("hosts", ordered, expect["hosts"])
    if "not_empty" in expect:
        yield from equal("not_empty", bool(ordered), expect["not_empty"])


def transition(case: Case) -> Differences:
    given, expect = case.given, case.expect
    settings = Settings(**given.get("config", {}))
    counters = given.get("task", {})
    attempts, cycles = float(counters.get("attempt_count", 0)), float(counters.get("retry_count", 0))
    match given["op"]:
        case "backoff":
            yield from equal("extra_s", extra_s(attempts, settings), expect["extra_s"])
        case "cycle_complete":
            yield from equal("complete", cycle_complete(attempts, settings), expect["complete"])
        case "all_cycles_complete":
            yield from equal("complete", all_cycles_complete(attempts, cycles, settings), expect["complete"])
        case "path":
            yield from equal("allowed", _is_allowed(given["from"], given["path"]), expect["allowed"])
        case _:
            yield from _moved(given, expect, settings, attempts, cycles)


def _is_allowed(state: str, path: list[str]) -> bool:
    return all(lifecycle.may_follow(before, after) for before, after in zip([state, *path], path, strict=False))


def _moved(
    given: dict[str, Any], expect: dict[str, Any], settings: Settings, attempts: float, cycles: float
) -> Differences:
    """One task in a pool, which has exactly the state that is given."""
    core = Core(settings)
    core.state = state = pools.state_with([{"id": "p", "parent": ROOT}])
    task = {
        "id": "t-0",
        "state": given["from"],
        "preemptible": True,
        "resource": given.get("task", {}).get("resource", {}),
    }
    run = pools.run_of(task, "p")
    run.attempts, run.cycles = attempts, cycles
    state.last_number = 1
    pools.track_as_it_is(state, run)
    op, answer = given["op"], None
    if op == "timeout":
        evolve(state, expired(state, settings, run))
    elif op == "dequeue_then_timeout":
        core.handle(commands.DequeueGangs(1), 0)
        assert run.state == lifecycle.PLACING, run.state
        core.handle(commands.Tick(), run.due_ms)
    elif op == "failed_placement":
        core.handle(commands.SetPlacements((), (commands.FailedPlacement((("t-0", "t-0-1"),)),)), 0)
    else:
        for to in given["path"]:
            assert lifecycle.may_follow(run.state, to), (run.state, to)
            pools.move(state, run, to)
        if "allocation_before" in given:
            state.pools["p"].allocation = Allocation(total=vector(given["allocation_before"]))
        answer = run.state
        core.handle(commands.NotifyTaskUpdates((commands.TaskEvent(1, "t-0-1", "TASK_FINISHED"),)), 0)
        if op == "done_then_wait":
            core.handle(commands.Tick(), int(given["wait_s"] * 1_000) + 1_000)
    if "to" in expect:
        yield from equal("to", run.state, expect["to"])
    if "ready_for_host_reservation" in expect:
        yield from equal(
            "ready_for_host_reservation", run.ready_for_host_reservation, expect["ready_for_host_reservation"]
        )
    if "state_after" in expect:
        yield from equal("state_after", run.state, expect["state_after"])
        yield from equal("last state", answer, expect["state_after"])
    if "allocation_after" in expect:
        ours = pools.amounts(state.pools["p"].allocation.total, expect["allocation_after"])
        yield from subset("allocation_after", ours, expect["allocation_after"])
