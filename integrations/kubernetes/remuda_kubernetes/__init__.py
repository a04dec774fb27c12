"""Kubernetes on remuda: a scheduler of pods that is an RM on the bus."""
