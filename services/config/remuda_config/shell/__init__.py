"""The configuration service."""

from remuda_config.shell.service import main
from remuda_config.shell.settings import ConfigSettings

__all__ = ["ConfigSettings", "main"]
