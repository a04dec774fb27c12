"""Errors that a user can act on: one line with what is wrong, where, and what to do.

Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """Shown as `remuda: <message>` with exit code 1."""


class NotFound(UserError):
    """The requested object does not exist."""
