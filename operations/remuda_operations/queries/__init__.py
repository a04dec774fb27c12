"""Requests of people to the services: queries, previews, actions of operators, changes of the configuration.

The command line and the front ends use this room. A refusal raises `RequestRefused`, an outage `NoAnswer`. Both
messages are complete sentences for an operator.
"""

from remuda_operations.queries.errors import NoAnswer, RequestRefused

__all__ = ["NoAnswer", "RequestRefused"]
