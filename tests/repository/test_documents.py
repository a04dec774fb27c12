"""The documents are true: their configuration loads, their tables are complete."""

from __future__ import annotations

import re

import remuda_config
from docs import commands
from docs.sections import replaced
from remuda_config.extra_config import TIMING_KEYS
from remuda_config.rules.properties import NAMES as PROPERTIES
from remuda_config.schema.models import Keys
from remuda_core import explain
from remuda_core.core import Core
from remuda_core.shell.queries import Queries
from tests.system.test_documents import ROOT, block


def test_the_configuration_of_the_documents_is_right() -> None:
    configuration = remuda_config.load(block("docs/configuration.md", "yaml"))
    assert [queue.name for queue in configuration.partitions[0].root.queues] == ["prod", "people"]


def test_every_setting_is_documented() -> None:
    document = (ROOT / "docs/configuration.md").read_text()
    keys = {key for model in Keys.__subclasses__() for key in model.model_fields}
    for key in (*keys, *PROPERTIES, *TIMING_KEYS):
        assert re.search(rf"`(\w+\.)*{re.escape(key)}(\.\w+)*`", document), key


def test_every_question_and_every_constraint_is_documented() -> None:
    for kind in Queries(Core("rm-1")).kinds:
        assert f"| `{kind}` |" in (ROOT / "docs/queries.md").read_text(), kind
    constraints = re.findall(r"^    (\w+(?:, \w+)*)  +", explain.__doc__ or "", flags=re.MULTILINE)
    for constraint in ", ".join(constraints).split(", "):
        assert f"`{constraint}`" in (ROOT / "docs/semantics.md").read_text(), constraint


def test_architecture_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 200


def test_the_readme_is_short_and_has_every_command() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120
    assert replaced(readme, {commands.MARKER: commands.table()}) == readme, "`make docs` writes the commands"
