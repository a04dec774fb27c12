"""Values in filters of LDAP searches: whatever a user is called, the filter keeps its structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus.settings import SettingsProblems, load
from remuda_rmproxy.groups.filters import check, escaped, filled
from remuda_rmproxy.settings import RmproxySettings

NASTY = st.text(st.sampled_from("*()\\\0|&!=~<>: aé\udcff,"), max_size=30) | st.text(max_size=60)


@given(NASTY)
def test_a_value_stays_one_value(value: str) -> None:
    """As a parser of filters reads it: one comparison for equality, with the bytes of the value."""
    search = pytest.importorskip("ldap3.operation.search", reason="an environment that is older than its lock")
    root = search.parse_filter(filled("(uid={user})", {"user": value}), None, False, None, None, False)
    [node] = root.elements
    compiled = search.compile_filter(node)
    assert compiled.getName() == "equalityMatch"
    assert bytes(compiled["equalityMatch"]["attributeDesc"]) == b"uid"
    assert bytes(compiled["equalityMatch"]["assertionValue"]) == value.encode(errors="replace")


@given(NASTY, NASTY)
def test_values_do_not_touch_each_other(user: str, dn: str) -> None:
    text = filled("(|(memberUid={user})(member={dn}))", {"user": user, "dn": dn})
    assert text == f"(|(memberUid={escaped(user)})(member={escaped(dn)}))"
    assert text.count("(") == text.count(")") == 3 and "*" not in text and "\0" not in text


@pytest.mark.parametrize(
    "template",
    ["", "uid={user}", "(uid=x)", "(uid={name})", "(uid={user})(", "(uid={user!r})", "(uid={})", "(uid={user)"],
)
def test_filters_that_are_none(template: str) -> None:
    with pytest.raises(ValueError, match=r"key=.*expected a filter in parentheses with \{user\}"):
        check("key", template, ("user",))


def test_settings_of_ldap_belong_together(tmp_path) -> None:
    def problem(*assignments: str) -> str:
        with pytest.raises(SettingsProblems) as refused:
            load(RmproxySettings, None, assignments)
        return str(refused.value)

    ldap = ("groups.resolver=ldap", "groups.ldap.url=ldap://a", "groups.ldap.user_base=b", "groups.ldap.group_base=c")
    (tmp_path / "password").write_text("x")
    assert load(RmproxySettings, None, ldap).settings.ldap_start_tls
    assert "groups.ldap.url: not set" in problem("groups.resolver=ldap")
    assert "expected ldap://HOST" in problem(*ldap, "groups.ldap.url=http://a")
    assert "expected both or neither" in problem(*ldap, f"groups.ldap.password_file={tmp_path}/password")
    assert "expected a filter" in problem(*ldap, "groups.ldap.user_filter=(uid=*)")
    assert "groups.resolver='nis': expected 'request', 'os' or 'ldap'" in problem("groups.resolver=nis")
    assert "groups.timeout" in problem("groups.timeout=1h")
