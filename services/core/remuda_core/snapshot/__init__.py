"""Saves a state as records, and restores it from them. `wire.snapshot_format` encodes records as bytes."""

from .records import Record, TimerRecord
from .restore import RESTORERS, restore, restore_one
from .save import save

__all__ = ["RESTORERS", "Record", "TimerRecord", "restore", "restore_one", "save"]
