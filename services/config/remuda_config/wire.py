"""Problems of a configuration as messages, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from remuda_config import limits
from remuda_config.problems import Problem
from remuda_proto.remuda.v1 import config_pb2


def bounded_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Returns at most MAX_PROBLEMS problems, and the number of the others as one more."""
    shown = list(problems[: limits.MAX_PROBLEMS])
    more = len(problems) - len(shown)
    return [*shown, *([Problem("", 0, f"and {more} more")] if more else [])]


def problems_to_wire(problems: Sequence[Problem]) -> list[config_pb2.ConfigurationProblem]:
    """Returns the bounded problems as messages."""
    return [
        config_pb2.ConfigurationProblem(path=problem.path, line=problem.line, message=problem.message)
        for problem in bounded_problems(problems)
    ]


def problems_from_wire(problems: Iterable[config_pb2.ConfigurationProblem]) -> list[Problem]:
    return [Problem(problem.path, problem.line, problem.message) for problem in problems]
