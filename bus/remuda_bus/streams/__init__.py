"""What services do with streams beyond single verbs: ordered appends, split requests, checks of the history."""
