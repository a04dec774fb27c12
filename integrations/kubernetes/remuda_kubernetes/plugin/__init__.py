"""Plugin mode: the default scheduler places pods, and the scheduler decides which pods it may place, and where. Pure.

A pod with an application is held until its ask has an allocation. Then it is approved for the node of the allocation.
"""
