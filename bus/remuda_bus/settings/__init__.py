"""Settings of services: from `remuda.yaml`, the environment and `--set`, each value with its origin.

`Settings` declares what all services read; a service adds its own in a subclass. `load` reads and checks them."""

from remuda_bus.settings.addresses import is_loopback, shown_host
from remuda_bus.settings.loading import Effective, Loaded, SettingsProblems, effective, load
from remuda_bus.settings.model import SERVICES_OF_SECTION, Settings
from remuda_bus.settings.pem import server_pem
from remuda_bus.settings.scheduler_acl import SchedulerAclSettings
from remuda_bus.settings.setting import Declared, Duration, ReadableFile, Seconds, Texts, declared, setting
from remuda_bus.settings.settings_file import NotSettings, SettingsFile

__all__ = [
    "SERVICES_OF_SECTION", "Declared", "Duration", "Effective", "Loaded", "NotSettings", "ReadableFile",
    "SchedulerAclSettings", "Seconds", "Settings", "SettingsFile", "SettingsProblems", "Texts", "declared", "effective",
    "is_loopback", "load", "server_pem", "setting", "shown_host",
]  # fmt: skip
