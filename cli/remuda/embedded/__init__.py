"""A NATS server on this machine: its process, its memory limit, the disk it writes to."""

from .nats_server import NatsServer, ServerError, free_port

__all__ = ["NatsServer", "ServerError", "free_port"]
