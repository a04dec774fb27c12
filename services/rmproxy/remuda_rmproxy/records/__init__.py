"""The records of RMs, and small values that all rooms of rmproxy share. Imports no other room."""
