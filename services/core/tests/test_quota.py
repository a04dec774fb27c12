"""A tag is text from outside: whatever it is, it is a quota or it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.rules.quota import MAX_TAG, BadQuota, quota_of

jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(("resources", "value")), inner),
)


@given(st.text() | jsons.map(repr) | jsons.map(lambda value: f'{{"resources": {value!r}}}'.replace("'", '"')))
def test_any_text_is_a_quota_or_is_refused(text: str) -> None:
    try:
        quota = quota_of({MAX_TAG: text})
    except BadQuota:
        return
    assert all(amount >= 0 for amount in quota.max.values())


@pytest.mark.parametrize("text", ['{"x":' * 100_000, "[" * 100_000, '{"resources":' * 1_000, "\ud800"])
def test_nothing_breaks_it(text: str) -> None:
    with pytest.raises(BadQuota):
        quota_of({MAX_TAG: text})
