"""Administer: the actions of operators."""

from .act import administer

__all__ = ["administer"]
