"""Rules of recovery and of explanations, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

EXPLAIN: Final = (
    *mutants_of(
        "explain.nodes",
        ("first_by_alphabet_is_named", "17: the resource that lacks most is named", "key=lambda each: (-short[each], each)", "key=lambda each: each"),
        ("too_large_is_no_reason", "17: an ask that no node can take is too large", "            if not any(node.schedulable for node in large_enough):\n", "            if False:\n"),
        ("small_nodes_are_closest", "17: the closest node is one that is large enough", "        nodes = [node for node in nodes if not never_fits(pending.ask, node)]\n", "        nodes = list(nodes)\n"),
    ),
    *mutants_of("explain.lacks", ("what_is_bound_leaves", "17: what is bound to a node stays there", "    allocated = node.bound if all_left else node.allocated\n", "    allocated = {} if all_left else node.allocated\n")),
    *mutants_of("explain.holders", ("holders_of_anything", "17: of a node, those hold it that hold the resource", "        if constraint.resource and not held:\n", "        if False:\n")),
)  # fmt: skip

RECOVERY: Final = (
    *mutants_of(
        "evolve.nodes",
        ("rejected_occupy_nothing", "14: what runs and cannot be booked counts as occupied", "    node.occupied = with_rejected(node.occupied, (one,))\n    lay_out_devices(partition, node)\n    add(partition.occupied, allocation.resource)\n", ""),
        ("occupied_hides_rejected", "14: what the RM reports as occupied is besides what it reported and cannot be booked", "    if node.rejected:\n        node.occupied", "    if False:\n        node.occupied"),
    ),
    *mutants_of("rules.resource", ("peaks_beyond_int64", "2: sums end at int64", "            most[name] = clamp(amount)\n", "            most[name] = amount\n")),
    *mutants_of("decide.release", ("rejected_stay_for_ever", "14: what cannot be booked is occupied until the RM releases it", "    for one in rejected:\n", "    for one in ():\n")),
    *mutants_of("decide.ask", ("reported_again_is_there_twice", "14: what is reported better is occupied no more", "    if (one := rejected_before(partition.nodes[allocation.node_id], allocation)) is not None:", "    if (one := None) is not None:")),
    *mutants_of(
        "decide.submit",
        ("allocations_before_their_application", "14: allocations are booked when their application is submitted", "    yield from recovered_now(partition, command.application_id, now_ms)\n", ""),
        ("running_work_is_refused", "14: applications with running work are not refused for what concerns their start", "    return forced or bool(", "    return bool("),
        ("only_forced_work_runs", "14: applications with running work are known by their allocations", "    return forced or bool(", "    return forced or False and bool("),
    ),
)  # fmt: skip
