"""Operations on streams that take several verbs of the bus: ordered appends, split requests, history checks."""
