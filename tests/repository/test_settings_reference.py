"""The reference of settings is that of the models, and the models of the services fit together."""

from __future__ import annotations

import re
from pathlib import Path

from docs.sections import replaced
from docs.settings import table
from remuda.local.services import SERVICES, check_settings, settings_of
from remuda_bus.settings import SERVICES_OF_SECTION, declared
from remuda_config.shell.settings import TIMING, ConfigSettings
from remuda_core.settings import Timing
from remuda_proto.durations import milliseconds
from remuda_replication.process import Settings

DOCUMENT = Path(__file__).parents[2] / "docs/settings.md"
EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def test_the_reference_of_settings_is_that_of_the_models() -> None:
    document = DOCUMENT.read_text()
    assert replaced(document, {"<!-- written by docs/settings.py -->": table()}) == document


def test_each_section_of_settings_belongs_to_the_services_that_read_it() -> None:
    """A service leaves the sections of others to them, so those that read a section know the same keys of it."""
    shared = {one.key.partition(".")[0] for one in declared(Settings.model_fields)}
    readers: dict[str, dict[str, set[str]]] = {}
    for service in SERVICES:
        for one in declared(settings_of(service).model_fields):
            if one.field not in Settings.model_fields:
                section = one.key.partition(".")[0]
                readers.setdefault(section, {}).setdefault(service, set()).add(one.key)
    assert not readers.keys() & shared
    assert {section: set(found) for section, found in readers.items()} == {
        section: set(services) for section, services in SERVICES_OF_SECTION.items()
    }
    for section, found in readers.items():
        assert len({frozenset(keys) for keys in found.values()}) == 1, section


def test_defaults_of_timing_are_those_of_the_core() -> None:
    core = Timing()
    for name, key in TIMING.items():
        [one] = declared({name: ConfigSettings.model_fields[name]})
        assert milliseconds(one.default_shown) == getattr(core, f"{key.removeprefix('timing.')}_ms"), key


def test_the_example_of_settings_is_right(tmp_path: Path) -> None:
    file, ca = tmp_path / "remuda.yaml", tmp_path / "ca.pem"
    ca.write_text("")
    file.write_text(EXAMPLE.findall(DOCUMENT.read_text())[0].replace("/run/secrets/ca.pem", str(ca)))
    check_settings(SERVICES, file, ())
