"""The scheduling index: the data structures that a pass searches, kept beside the state and updated by every fact."""
