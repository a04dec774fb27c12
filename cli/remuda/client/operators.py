"""The operator who runs a command."""

from __future__ import annotations

from remuda_bus.nats import Access
from remuda_operations.operators import Operator
from remuda_operations.system_user import user_of_the_system

from ..errors import UserError


def operator() -> Operator | None:
    """Returns the operator who runs this command; None where this process has a key: the server knows its owner.

    Without keys, it is the user of the operating system. Raises UserError.
    """
    if Access.from_environment().seed is not None:
        return None
    try:
        return user_of_the_system()
    except ValueError as error:
        raise UserError(str(error)) from None
