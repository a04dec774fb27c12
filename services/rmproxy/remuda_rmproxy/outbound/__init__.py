"""Facts of the log: as callbacks into the stream CALLBACKS, and as questions to RMs."""
