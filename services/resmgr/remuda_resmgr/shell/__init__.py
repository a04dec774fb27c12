"""asyncio, gRPC and the clock: the core as a server."""
