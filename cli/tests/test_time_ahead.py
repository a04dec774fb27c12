"""`remuda drain --at TIME`: times ahead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from remuda.errors import UserError
from remuda.terminal.arguments import time_ahead

NOW = datetime(2027, 3, 1, 8, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", datetime(2027, 3, 1, 9, tzinfo=UTC)),
        ("18:00", datetime(2027, 3, 1, 17, tzinfo=UTC)),
        ("7:30", datetime(2027, 3, 2, 6, 30, tzinfo=UTC)),
        ("08:00", datetime(2027, 3, 2, 7, tzinfo=UTC)),
        ("2027-03-01T09:00", datetime(2027, 3, 1, 8, tzinfo=UTC)),
        ("2027-03-01 09:00:00Z", datetime(2027, 3, 1, 9, tzinfo=UTC)),
        ("2027-03-03", datetime(2027, 3, 2, 23, tzinfo=UTC)),
    ],
)
def test_times_ahead(text: str, expected: datetime) -> None:
    assert time_ahead(text, NOW) == int(expected.timestamp() * 1_000)


@pytest.mark.parametrize("text", ["", "soon", "0s", "-2h", "25:00", "2027-02-28T12:00", "2027-03-01T06:00Z"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected a time ahead, such as 2h, 18:00, "):
        time_ahead(text, NOW)
