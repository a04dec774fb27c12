"""A state as records, and a state out of records: what a snapshot holds. The bytes are wire's."""

from .records import Record, TimerRecord
from .restore import RESTORERS, restore, restore_one
from .save import save

__all__ = ["RESTORERS", "Record", "TimerRecord", "restore", "restore_one", "save"]
