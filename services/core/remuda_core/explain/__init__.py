"""Explanations for people: why an ask waits, and its place in the order."""
