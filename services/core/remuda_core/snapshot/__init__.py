"""A state as records, and a state out of records: what a snapshot holds. The bytes are wire's."""

from .records import AlarmRecord, Record
from .restore import RESTORERS, restore, restore_one
from .save import save

__all__ = ["RESTORERS", "AlarmRecord", "Record", "restore", "restore_one", "save"]
