"""Tokens of pages and entity tags of `/api/v1`."""

from __future__ import annotations

import pytest

from remuda_web.api_v1.pages import after_of, page, token_of
from remuda_web.entity_tags import entity_tag, matches
from remuda_web.problems import Problem


def test_a_token_leads_back_to_its_place() -> None:
    for after in (["default", "root.a"], ["default", 12, 345], ["ü", -1]):
        token = token_of(after)
        assert after_of(token) == after and token.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("token", ["x", "%%", "e30", "bnVsbA", "ÿ", "W1tb" * 20_000], ids=lambda token: token[:8])
def test_a_wrong_token_is_refused(token: str) -> None:
    with pytest.raises(Problem, match="expected the `next`") as refused:
        after_of(token)
    assert refused.value.status == 400


def test_rows_have_one_name() -> None:
    shown = page("explain", {"rm": "rm-1", "asks": [1], "next": ["default", 1, 2]})
    assert (shown["rm"], shown["rows"], after_of(shown["next"])) == ("rm-1", [1], ["default", 1, 2])
    assert page("nodes", {"nodes": []})["next"] is None


def test_tags_match_what_they_name() -> None:
    tag = entity_tag(b"a")
    assert matches(f'"x", W/{tag}', tag) and matches("*", tag)
    assert not matches(entity_tag(b"b"), tag) and not matches("", tag)
