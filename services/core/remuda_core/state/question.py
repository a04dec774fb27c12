"""Open questions to the RM."""

from __future__ import annotations

import msgspec

from .. import facts
from .application import Application, Node


class Question(msgspec.Struct, eq=False):
    """A question to the RM whether an ask may start on a node. The resources are booked until it is answered."""

    fact: facts.PredicateAsked
    node: Node
    application: Application
