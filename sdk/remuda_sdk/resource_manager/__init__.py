"""The side of a resource manager (RM) on the bus: its session, requests, callbacks and answers.

The SDK publishes `client.ResourceManager` for other people's RMs; RMs of this repository use it from here.
"""

from remuda_sdk.resource_manager.client import ResourceManager

__all__ = ["ResourceManager"]
