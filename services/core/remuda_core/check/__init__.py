"""What is true of every state, of its scheduling index and of every decision, asserted; and a state as plain values."""

from .decision import check_decision
from .dump import digest, dump
from .state import check

__all__ = ["check", "check_decision", "digest", "dump"]
