"""Errors that a user can act on: one line with what is wrong, where, and what to do.

Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import signal


class UserError(Exception):
    """Shown as `remuda: <message>` with this exit code."""

    exit_code = 1


class Undecided(UserError):
    """The outcome of the request is not known yet: the scheduler may still accept or refuse it."""

    exit_code = 3


class NoSystem(UserError):
    """No server answers, so nothing more can be asked."""


class Stopped(Exception):
    """A signal ended the command."""

    def __init__(self, sign: signal.Signals) -> None:
        super().__init__(sign.name)
        self.sign = sign
