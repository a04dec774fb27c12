"""Invariants of a state, its scheduling index and a decision, checked by assertions; and a state as plain values."""

from .decision import check_decision
from .dump import digest, dump
from .state import check

__all__ = ["check", "check_decision", "digest", "dump"]
