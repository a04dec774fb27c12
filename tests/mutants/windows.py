"""Rules of windows of a calendar, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

WINDOWS: Final = (
    *mutants_of(
        "rules.windows",
        (
            "windows_by_utc",
            "26: a window comes by the clock of its zone",
            "        before_ms = one.offset_ms\n",
            "        before_ms = 0\n",
        ),
        (
            "windows_left_out_by_the_clock_after",
            "26: a time that is left out is read by the clock before",
            "        if place and after_ms < one.from_ms:  # left out\n            return at_ms",
            "        if place and after_ms < one.from_ms:  # left out\n            return after_ms",
        ),
        (
            "windows_on_days_left_out",
            "26: a window does not begin on the days of `skip`",
            "not in window.days or day in window.skip:",
            "not in window.days:",
        ),
        (
            "windows_for_ever",
            "26: a window does not begin after `until`",
            "        if window.until_ms and from_ms >= window.until_ms:",
            "        if False:",
        ),
        (
            "windows_without_lead",
            "26: a window that keeps nodes opens with its lead",
            "    return from_ms - window.lead_ms if window.queue else from_ms",
            "    return from_ms",
        ),
        (
            "windows_of_every_attribute",
            "26: nodes of a window have all its attributes",
            "    return bool(window.nodes) and all(",
            "    return bool(window.nodes) and any(",
        ),
        (
            "windows_of_no_queue_below",
            "26: asks of queues below the one that nodes are kept for start there",
            '    return path == queue or path.startswith(f"{queue}.")',
            "    return path == queue",
        ),
    ),
    *mutants_of(
        "rules.leaving",
        (
            "windows_unbounded",
            "26: with `unbounded: allow` asks without a bound start until the window begins",
            "        return 0 if lasts_ms >= ALWAYS_MS else lasts_ms",
            "        return lasts_ms",
        ),
        (
            "windows_kept_from_all",
            "26: asks of the queue that nodes are kept for start there",
            "    if audience.startswith(OTHERS) and is_below(path, audience.removeprefix(OTHERS)):",
            "    if False:",
        ),
    ),
    *mutants_of(
        "evolve.windows",
        (
            "windows_that_keep_nothing",
            "26: a window that is open keeps its nodes for a queue",
            "        if known is not None and known.open == bool(window.queue):",
            "        if known is not None and not known.open and not window.queue:",
        ),
    ),
    *mutants_of(
        "state.application",
        (
            "windows_undone_by_others",
            "26: when a window closes, nodes that something else drains stay so, and the other way round",
            " or self.drained_by_operator or bool(self.in_windows)",
            " or self.drained_by_operator",
        ),
    ),
    *mutants_of(
        "decide.windows",
        (
            "windows_at_the_next_tick",
            "26: a configuration opens a window that has begun",
            "    if opens_ms(window, span.from_ms) <= now_ms:",
            "    if False:",
        ),
        (
            "windows_that_passed",
            "26: a window that passed in between does not open",
            "    if not known.open and now_ms < known.until_ms:",
            "    if not known.open:",
        ),
        (
            "windows_that_stay",
            "26: one that stays as it was goes on",
            "        if known is None or stay.get(window.name) == window:",
            "        if known is None:",
        ),
        (
            "windows_of_old",
            "26: one that a configuration has in another form closes",
            "        if known is None or stay.get(window.name) == window:",
            "        if known is None or window.name in stay:",
        ),
        (
            "windows_of_first_settings",
            "26: of several windows with settings of a queue the last one holds",
            "    for window in reversed(partition.settings.calendar):",
            "    for window in partition.settings.calendar:",
        ),
    ),
    *mutants_of(
        "decide.node",
        (
            "windows_that_release_all",
            "26: what is bound to a node is not released",
            "        if allocation.releasing or required_node(allocation.fact.tags) == node.id:",
            "        if allocation.releasing:",
        ),
        (
            "windows_that_release_nothing",
            "26: with `release` what runs is released when the window opens",
            "        if window.release:",
            "        if False:",
        ),
        (
            "windows_not_followed",
            "26: a node whose attributes change is in the window or not from then on",
            "    yield from follow_windows(partition, node)\n    yield from assign_devices(partition, (node,))",
            "    yield from assign_devices(partition, (node,))",
        ),
        (
            "windows_of_new_nodes",
            "26: a node that comes is in the window",
            "    yield from follow_windows(partition, added)\n",
            "    pass\n",
        ),
    ),
    *mutants_of(
        "decide.configure",
        (
            "windows_undone_by_a_configuration",
            "26: another configuration leaves settings of an open window in force",
            "            queue_settings = in_force(partition, path)",
            "            pass",
        ),
    ),
    *mutants_of(
        "explain.nodes",
        (
            "windows_untold",
            "26: asks that wait for a node of a window have the constraint `window`",
            "    window = _leaves_in(partition, last, pending)",
            "    window = None",
        ),
    ),
)
