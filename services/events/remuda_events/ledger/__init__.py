"""The ledger of each RM: hours of use and waste, derived from the log (semantics section 17). `projection`: facts to
hours (pure). `checkpoints`: a projection as bytes, and from a snapshot of the core (pure). `follower`: the log, and the
stream LEDGER."""
