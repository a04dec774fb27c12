"""What all rooms of rmproxy share: the records of RMs and small values. Imports no other room."""
