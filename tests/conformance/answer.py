"""The answers of a scheduler to a scenario, step by step, as a trace."""

from __future__ import annotations

from dataclasses import dataclass, field

from .recording import Json


@dataclass
class Answer:
    """One step. `callbacks`: [{cb, msg}] in the order received; `productive`: cycles that led to something."""

    number: int
    action: str
    label: str = ""
    error: str = ""
    cycles: int = 0
    productive: int = 0
    callbacks: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    dump: Json | None = None

    def as_trace(self) -> Json:
        step: Json = {"step": self.number, "op": self.action, "callbacks": self.callbacks, "events": self.events}
        if self.error:
            step["error"] = self.error
        if self.action == "schedule":
            step |= {"cycles": self.cycles, "productiveCycles": self.productive}
        if self.dump is not None:
            step["dump"] = self.dump
        return step


@dataclass
class Answers:
    """`refused`: why the registration was."""

    refused: str = ""
    steps: list[Answer] = field(default_factory=list)
    final: Json | None = None

    def as_trace(self) -> Json:
        registration: Json = {"error": self.refused} if self.refused else {"ok": True}
        return {"registration": registration, "steps": [s.as_trace() for s in self.steps], "final": self.final}
