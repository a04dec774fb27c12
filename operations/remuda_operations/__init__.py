"""Operations of a running system for people and tools: operators and their rights, queries and the rows of answers, and
the methods of `remuda.v1.Admin` and `Metrics` without a transport."""
