"""The process: reflectors, the RM on the bus, and the calls of the API that the shim wants."""

from remuda_kubernetes.shell.main import main

__all__ = ["main"]
