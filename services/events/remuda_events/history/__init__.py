"""The event history of RMs in the stream EVENTS."""
