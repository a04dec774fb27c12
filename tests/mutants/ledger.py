"""Rules of the ledger (semantics section 17), each broken on purpose. No golden scenario has a ledger."""

from __future__ import annotations

from typing import Final

from .mutate import Mutant

SECTION: Final = "17, ledger"


def _of(module: str, *broken: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    return tuple(
        Mutant(f"ledger_{name}", f"{SECTION}: {rule}", f"{module}", text, by) for name, rule, text, by in broken
    )


LEDGER: Final = (
    *_of(
        "remuda_events.ledger.projection",
        ("hours_end_late", "an hour is closed by the first commit behind it", "while self.at_ms >= self.hour_ms + HOUR_MS:", "while self.at_ms > self.hour_ms + HOUR_MS:"),
        ("hours_begin_late", "a row is amount * ms in one hour", "self._into_ms = self.at_ms - self.hour_ms", "self._into_ms = self.at_ms - self.hour_ms - 1"),
        ("running_work_is_not_carried_over", "an allocation counts in each hour for as long as it runs there", "        self.used, self.amounts = used, {}", "        self.used, self.amounts = {}, {}"),
        ("clocks_go_back", "time is that of commits, and stands still where a clock goes back", "self.at_ms = max(self.at_ms, now_ms)", "self.at_ms = now_ms"),
        ("late_commits_count_nothing", "what comes after an hour was closed is made up for in the next one", "self._into_ms = self.at_ms - self.hour_ms", "self._into_ms = max(0, self.at_ms - self.hour_ms)"),
        ("waste_is_used", "waste repeats amounts, and is no use", "        if kind:\n            row = self.row(running.row.key._replace(kind=kind))", "        if kind:\n            row = running.row"),
        ("placeholders_are_used", "placeholders are of the kind `gang`", "hours.GANG if placeholder else hours.USED", "hours.USED"),
        ("others_are_left_out", "further rows are merged as `others`; sums stay exact", "if (amounts := row.close())]", 'if (amounts := row.close()) and key.queue != "others"]'),
        ("others_are_not_bounded", "an hour has a bounded number of rows", "if key in rows or len(rows) < 2 * limits.LEDGER_ROWS:", "if True:"),
        ("moved_work_stays", "after a move the new queue is charged", "one.row.key._replace(queue=fact.queue, application=application.id)", "one.row.key._replace(application=application.id)"),
        ("moved_work_brings_its_past", "a move leaves what was used before with the old queue", "            one.row.begin(one.resource, self._into_ms)\n        for", "            one.row.begin(one.resource, 0)\n        for"),
        ("moved_work_counts_twice", "after a move only the new queue is charged", "            one.row.end(one.resource, self._into_ms)\n            one.row = ", "            one.row = "),
        ("moved_reservations_stay", "after a move the new queue is charged for what is kept", "        for node in application.reserved.values():\n            self._reserve(node, application)\n", ""),
        ("unreported_is_used", "what an RM has to report again is not used meanwhile", "row = self.row(running.row.key._replace(kind=hours.UNREPORTED))", "row = running.row"),
        ("unreported_is_not_told", "what was not reported meanwhile is `unreported`", "before is not None and 0 < self.at_ms", "before is not None and 0 > self.at_ms"),
        ("unreported_for_ever", "`unreported` is what is reported within a day", "0 < self.at_ms - before.at_ms < limits.UNREPORTED_FOR_MS", "0 < self.at_ms - before.at_ms"),
        ("registrations_end_nothing", "what an RM has to report again is not used meanwhile", "        if fact.resync != REPLAY:\n", "        if False:\n"),
        ("replay_ends_everything", "with `replay` nothing has to be reported again", "        if fact.resync != REPLAY:\n", "        if True:\n"),
        ("deregistered_rms_go_on", "a deregistration ends all", "        if fact.deregistered:\n", "        if False:\n"),
        ("removed_applications_go_on", "what is removed is not used", "                self._end(fact.partition, application, name)\n\n    # Allocations", "                pass\n\n    # Allocations"),
        ("replaced_placeholders_go_on", "a placeholder that is replaced is not used", "self._end(real.partitionName, self.applications[real.partitionName, real.applicationID], fact.placeholder)", "pass"),
        ("checkpoints_are_lost", "what was checkpointed is not lost", 'return "" if running.checkpointed else hours.LOST', "return hours.LOST"),
        ("no_is_yes", "the tag remuda/checkpointed may say no", "given.lower() not in _NO", "bool(given)"),
        ("asks_do_not_say_more", "the tag of the ask counts before that of the application", 'tags.get(CHECKPOINTED, application.tags.get(CHECKPOINTED, ""))', 'application.tags.get(CHECKPOINTED, "")'),
        ("lost_since_the_hour_began", "all is lost that a preempted allocation had used", "row.repeat(running.resource, self.at_ms - running.since_ms)", "row.repeat(running.resource, self.at_ms - max(running.since_ms, self.hour_ms))"),
        ("placeholders_fail_for_nothing", "a placeholder that is released with TIMEOUT has failed", "application.failing or (running.placeholder and termination == si.TIMEOUT)", "application.failing"),
        ("failed_gangs_have_used", "all that a gang has when it fails has failed", "application.failing or (running.placeholder and termination == si.TIMEOUT)", "running.placeholder and termination == si.TIMEOUT"),
        ("whatever_times_out_fails", "an allocation that times out has not failed", "(running.placeholder and termination == si.TIMEOUT)", "termination == si.TIMEOUT"),
        ("all_that_is_free_is_kept", "of a reserved node is kept what its ask needs", "name: min(amount, free)", "name: free"),
        ("all_that_is_needed_is_kept", "of a reserved node is kept what is free", "name: min(amount, free)", "name: amount"),
        ("kept_is_not_followed", "of a reserved node is kept what is free", "        add(node.used, resource, times)\n        if node.reservation is not None:", "        add(node.used, resource, times)\n        if False:"),
        ("kept_for_ever", "a node is kept for as long as it is reserved", "            reservation.row.end(reservation.idle, self._into_ms)\n            reservation.application.reserved", "            reservation.application.reserved"),
        ("questions_hold_nothing", "room that a question holds counts as used", '    "predicate_asked": Projection.asked,\n', '    "predicate_asked": lambda *_: None,\n'),
        ("tags_of_applications_alone", "a row has the tag of the ask, else of the application", 'tags.get(name) or application.tags.get(name, "")', 'application.tags.get(name, "")'),
        ("tags_of_asks_alone", "a row has the tag of the ask, else of the application", 'tags.get(name) or application.tags.get(name, "")', 'tags.get(name, "")'),
        ("days_lose_hours", "days are the sums of their hours", "hours.day_of(self.hour_ms) > self.day_ms", "self.hour_ms > self.day_ms"),
    ),
    *_of(
        "remuda_events.ledger.checkpoints",
        ("begins_twice_after_a_restart", "a restart changes no sum", "        row.hold(resource)\n        add(", "        row.begin(resource, projection.at_ms - projection.hour_ms)\n        add("),
        ("ends_twice_after_a_restart", "a restart changes no sum", "        row.hold(resource)\n        add(", "        add("),
        ("the_open_hour_is_lost", "a restart changes no sum", "OpenRow(key, amounts)", "OpenRow(key)"),
        ("the_open_day_is_lost", "a restart changes no sum", "dict(map(_read, found.day))", "{}"),
        ("the_past_is_lost", "all is lost that a preempted allocation had used, also before a restart", "row, resource, each.since_ms, each.node", "row, resource, projection.at_ms, each.node"),
        ("the_gap_is_lost", "`unreported` is told, also over a restart", "{uuid: Dropped(dict(resource), at) for uuid, (resource, at) in found.dropped.items()}", "{}"),
        ("failures_are_lost", "all that a gang has when it fails has failed, also over a restart", "application.failing, application.questions = one.failing,", "application.failing, application.questions = False,"),
        ("reservations_are_lost", "a node is kept for as long as it is reserved, also over a restart", "    rows[was.row].hold(node.reservation.idle)\n", ""),
        ("snapshots_begin_at_0", "a ledger that begins at a snapshot counts from there on", "list(projection.advance(record.rm.now_ms))", "list(projection.advance(record.rm.now_ms - 1))"),
    ),
    *_of(
        "remuda_events.ledger.follower",
        ("trimmed_hours_are_lost", "a ledger whose log was trimmed keeps what it has followed", "        projection.add_rows(was)\n", ""),
        ("rebuilt_state_goes_on", "after a rebuild what is not reported is not used", "            projection.forget_state()\n            position", "            position"),
        ("begins_anew", "a restart goes on at the checkpoint", "projection, position = found or await _begun(bus, rm_id, tags, listing)", "projection, position = await _begun(bus, rm_id, tags, listing)"),
        ("hours_are_written_again", "closed hours are never written again", '{subjects.EXPECTED_LAST: "0"}', "{}"),
    ),
    *_of(
        "remuda_operations.ledger.hours",
        ("sums_are_of_one_application", "rows by queue are the sums of their applications", "total[name] = total.get(name, 0) + amount\n        applications", "total[name] = amount\n        applications"),
        ("days_begin_late", "hours and days are those of UTC", "return at_ms - at_ms % (HOURS_OF_DAY * HOUR_MS)", "return at_ms - at_ms % (HOURS_OF_DAY * HOUR_MS) + HOUR_MS"),
    ),
    *_of(
        "remuda_operations.ledger.reading",
        ("the_hour_behind_counts", "hours count that begin in the time", "self.since_ms <= self._begin_ms(message) < self.until_ms", "self.since_ms <= self._begin_ms(message) <= self.until_ms"),
        ("the_day_begins_early", "hours count that begin in the time", "hours.day_of(query.since_ms + DAY_MS - 1)", "hours.day_of(query.since_ms)"),
        ("days_count_twice", "days are read in place of their hours", "of_hours(last, query.until_ms)", "of_hours(first, query.until_ms)"),
        ("the_open_day_is_whole", "hours of a day that is not closed are read one by one", "hours.day_of(min(query.until_ms, closed_ms))", "hours.day_of(query.until_ms)"),
        ("days_of_utc", "days are those of the zone", 'or (query.per != "all" and query.zone != "UTC")', ""),
        ("kinds_are_one", "`used` and `gang` are told apart from waste", "        known = of_row.get(kind)\n", '        kind = "used"\n        known = of_row.get(kind)\n'),
        ("names_that_begin_alike", "a queue has those below it", 'group.queue.startswith(f"{asked.queue}.")', "group.queue.startswith(asked.queue)"),
        ("everybody_is_asked_for", "rows of a user alone", "and (not asked.user or group.user == asked.user)", ""),
        ("everything_is_seen", "an operator sees own rows and those of visible queues", "and (self._seen is None or self._seen(group.partition, group.queue, group.user))", ""),
        ("months_of_january", "a month ends where the next one begins", "year=begin.year + begin.month // 12", "year=begin.year"),
        ("applications_are_summed", "rows of an application alone", "if not application or name == application:", "if True:"),
    ),
)  # fmt: skip
