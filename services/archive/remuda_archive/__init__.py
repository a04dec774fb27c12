"""The archive: what an RM's log and inbox held, hour by hour, after the streams have been trimmed.

`segments` is the format of an object, `holdings` tells from the names in a store what it has of an RM, `copying` writes
what is new, `tidying` joins the segments of an hour and deletes what is too old, `verify` looks for damage. `shell` is
the process. The archive follows: it appends to no stream, and a store that fails delays nobody
(docs/history.md)."""
