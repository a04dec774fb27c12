"""The configuration service."""

from remuda_config.shell.service import ConfigSettings, main

__all__ = ["ConfigSettings", "main"]
