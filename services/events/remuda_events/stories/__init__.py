"""Stories: everything that happened to one thing, read from the log."""
