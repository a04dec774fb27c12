"""`remuda config check`: files as users of Apache YuniKorn and Peloton have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remuda.errors import UserError
from remuda.show.config_check import check

QUEUES = "partitions:\n  - name: default\n    statedumpfilepath: x\n    queues: []\n"


def below(key: str, text: str = QUEUES) -> str:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return f"{key}\n  queues.yaml: |\n{lines}"


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yunikorn-configs}\n" + below("data:")
HELM = below("yunikornDefaults:")


def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, as_json: bool = False) -> str:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    check(file, as_json)
    return capsys.readouterr().out.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(("text", "line"), [(QUEUES, 3), (CONFIG_MAP, 8), (HELM, 5)])
def test_a_text_is_read_at_its_key_with_lines_of_the_file(tmp_path, capsys, text, line):
    out = checked(tmp_path, capsys, text)
    path = "partitions[0].statedumpfilepath"
    at_key = "" if text is QUEUES else ", at the key queues.yaml"
    assert out.splitlines()[:2] == [
        f"file.yaml:{line}: warning: {path}: without effect: `remuda dump` prints the state",
        f"file.yaml:{line}: {path}: of Apache YuniKorn 1.0 to 1.4",
    ]
    assert f"file.yaml{at_key}: valid: partition default with 1 queue." in out


def test_problems_of_a_text_inside_have_lines_of_the_file(tmp_path, capsys):
    with pytest.raises(UserError, match="1 problem; remuda would refuse this file"):
        checked(tmp_path, capsys, CONFIG_MAP.replace("statedumpfilepath", "statedumpfile"))
    out = capsys.readouterr().out
    assert "file.yaml:8: partitions[0].statedumpfile: unknown key" in out


def test_json_has_warnings_and_versions(tmp_path, capsys):
    found = json.loads(checked(tmp_path, capsys, HELM, as_json=True))
    path = "partitions[0].statedumpfilepath"
    assert found["valid"] and found["queues"] == {"default": 1}
    assert found["warnings"] == [{"path": path, "line": 5, "message": "without effect: `remuda dump` prints the state"}]
    assert found["versions"] == [{"path": path, "line": 5, "message": "of Apache YuniKorn 1.0 to 1.4"}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "name: A\nowningteam: t\nresources:\n- {kind: cpu, limit: 2}\n",
            "a resource pool of Peloton: `remuda pool set",
        ),
        ("pools:\n- name: A\n", "pools of Peloton: `remuda pool preview`"),
        ("partitions:\n\t- name: default\n", "1 problem"),
        ("kind: ConfigMap\ndata: {queues.yaml: 7}\n", "problems"),
    ],
)
def test_another_file_is_named(tmp_path, capsys, text, says):
    with pytest.raises(UserError, match=says):
        checked(tmp_path, capsys, text)


def test_a_tab_is_said_to_be_one(tmp_path, capsys):
    with pytest.raises(UserError):
        checked(tmp_path, capsys, "partitions:\n  - name: a\n    queues:\n\t- name: b\n")
    assert "file.yaml:4: not YAML:" in (out := capsys.readouterr().out)
    assert "YAML takes blanks for indentation, no tabs" in out
