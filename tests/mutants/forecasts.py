"""Rules of forecasts (semantics section 22), each broken on purpose. No golden scenario has a forecast."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

SECTION: Final = "22, forecasts"

FORECASTS: Final = (
    *mutants_of(
        "trials.maxima",
        ("forecast_windows_stay", f"{SECTION}: windows change maxima", "        if from_ms <= at_ms < until_ms:", "        if False:"),
        ("forecast_windows_never_close", f"{SECTION}: windows change maxima until they close", "        if from_ms <= at_ms < until_ms:", "        if from_ms <= at_ms:"),
        ("forecast_first_window_counts", f"{SECTION}: the last window of the calendar that is open counts", "for window, (from_ms, until_ms) in _spans(partition):", "for window, (from_ms, until_ms) in reversed(_spans(partition)):"),
        ("forecast_loans_stay", f"{SECTION}: loans end", "        if at_ms < loan.until_ms:", "        if True:"),
        ("forecast_lends_twice", f"{SECTION}: loans end", "            settings = shifted(settings, loan, -times)", "            pass"),
        ("forecast_borrowers_lend", f"{SECTION}: a borrower has more, a lender less", "(1 if path == key.borrower else -1, loan)", "(1, loan)"),
    ),
    *mutants_of(
        "trials.forecast",
        ("forecast_no_maximum_stays", f"{SECTION}: a window may end a maximum, or begin one", "{**dict.fromkeys((name for one in maxima for name in one.most), UNLIMITED), **limit.most}", "limit.most"),
        ("forecast_looks_at_ends_alone", f"{SECTION}: windows change maxima when they open", "| {change.at_ms for change in changes}", "| set()"),
        ("forecast_changes_come_late", f"{SECTION}: windows change maxima when they open", "changes[-1].at_ms <= now_ms", "changes[-1].at_ms < now_ms"),
        ("forecast_more_is_less", f"{SECTION}: a larger maximum leaves more room", "            room[at] += more", "            room[at] -= more"),
        ("forecast_starts_above_a_maximum", f"{SECTION}: where less than nothing is left, nothing starts", "one.amounts[at] <= room ", "one.amounts[at] <= max(room, 0) "),
        ("forecast_windows_return_no_nodes", f"{SECTION}: nodes come back at the end of a window", "    if now_ms >= span.until_ms:\n        return False\n", ""),
    ),
)  # fmt: skip
