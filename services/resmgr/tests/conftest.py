"""Laws are tried as in the scheduler's room: the same examples each time, however slow the machine is."""

from services.core.tests import conftest as _profiles  # noqa: F401 - it loads the profile of hypothesis
