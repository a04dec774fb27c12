"""For tests of replication: short tracebacks."""

from bus.tests.conftest import plain_log  # noqa: F401 - a fixture
