"""asyncio, gRPC and the clock: the core as a server."""

from . import fork_handlers as fork_handlers  # before gRPC is imported
