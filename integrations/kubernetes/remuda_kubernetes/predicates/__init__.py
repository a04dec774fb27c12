"""Predicates: whether a pod may start on a node, as the default scheduler's filters decide it. Pure.

The amounts of resources are the scheduler's own business.
"""
