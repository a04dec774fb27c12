"""State of an RM as a whole, for all services: halts, faults, and its removal."""
