"""Reads the commands of one commit, and writes its facts."""

from __future__ import annotations

from collections.abc import Iterable

from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si

from .. import commands, facts
from .commands import OF_ITEMS, READERS, read_application_request, refusals_of
from .facts import WRITERS


class CommitCodec:
    """Remembers the message of each submitted ask: copying it into AskAccepted is cheaper than writing it again."""

    def __init__(self) -> None:
        self._asks: dict[int, tuple[facts.Ask, si.AllocationAsk]] = {}

    def read(self, message: inbox_pb2.Command) -> tuple[str, Iterable[commands.Command]]:
        """The name of the request, and its commands in the order in which they must be decided. Commands are read one
        by one, because a message may hold tens of thousands."""
        kind = message.WhichOneof("command")
        if kind is None:
            return "Nothing", []
        name, read = READERS[kind]
        if kind not in OF_ITEMS:
            return name, read(getattr(message, kind))
        refused = refusals_of(message)
        if kind == "application":
            return name, read_application_request(message.application, refused, message.groups_unresolved)
        request = getattr(message, kind)
        asked = read(request, refused)
        return name, self._remember(asked, request) if kind == "allocation" and request.asks else asked

    def _remember(self, asked: Iterable[commands.Command], request: si.AllocationRequest) -> Iterable[commands.Command]:
        """Yield the commands, and remember the message of each ask."""
        original = iter(request.asks)
        for command in asked:
            if type(command) is commands.SubmitAsk and not command.as_allocation:
                self._asks[id(command.ask)] = (command.ask, next(original))
            yield command

    def write(self, decided: Iterable[facts.Fact], decision: log_pb2.Decision) -> None:
        """Append facts to the decision."""
        add, asks = decision.facts.add, self._asks
        for fact in decided:
            if type(fact) is facts.AskAccepted and (original := asks.get(id(fact.ask))) is not None:
                add().ask_accepted.ask.CopyFrom(original[1])
            else:
                WRITERS[type(fact)](fact, add())
