"""Peloton's messages to values and back."""
