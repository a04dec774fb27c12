"""Settings of services: from `remuda.yaml`, the environment and `--set`, each value with its origin.

`Settings` declares what all services read; a service adds fields in a subclass. `load` reads and checks all fields."""

from remuda_bus.settings.listening import is_loopback, server_pem, shown_host
from remuda_bus.settings.loading import Effective, Loaded, SettingsProblems, effective, load
from remuda_bus.settings.model import SERVICES_OF_SECTION, SchedulerAclSettings, Settings
from remuda_bus.settings.setting import Declared, Duration, ReadableFile, Seconds, Texts, declared, setting

__all__ = [
    "SERVICES_OF_SECTION", "Declared", "Duration", "Effective", "Loaded", "ReadableFile",
    "SchedulerAclSettings", "Seconds", "Settings", "SettingsProblems", "Texts", "declared", "effective",
    "is_loopback", "load", "server_pem", "setting", "shown_host",
]  # fmt: skip
