"""What a person did wrong or has to know: one line that says what, where, and what to do about it.

Everything else that is raised is a fault of ours and keeps its traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """Shown as `remuda: <message>` with exit code 1."""
