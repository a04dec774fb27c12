"""The scheduling index of a partition, compared with what follows from its state."""

from .partition import check_index

__all__ = ["check_index"]
