"""The system on this machine: `remuda up` and `remuda run`, processes that are kept running."""
