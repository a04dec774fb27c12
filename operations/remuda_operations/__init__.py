"""What people and tools ask of a running system: operators and their rights, queries and the rows of answers, and the
methods of `remuda.v1.Admin` and `Metrics` without a transport."""
