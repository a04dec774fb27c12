"""Requests of RMs: from the stream REQUESTS, as commands, into the inbox of each RM."""
