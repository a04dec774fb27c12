"""Explanations for people: the constraints of a waiting ask, and its position in the queue."""
