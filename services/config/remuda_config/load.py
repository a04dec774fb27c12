"""The whole way from a text to a `Configuration`, without IO: for the service, the command line, tests."""

from __future__ import annotations

from collections.abc import Mapping

from remuda_config import limits, properties
from remuda_config.build import BUILT_IN, build
from remuda_config.problems import Finding, Invalid, Problem, spell
from remuda_config.schema import Document, Unreadable, parse, read
from remuda_config.verify import verify
from remuda_proto.remuda.v1 import config_pb2

COMPATIBILITIES = ("none", "yunikorn-1.4")


def load(text: str | bytes, source: str = "", compatibility: str = "none") -> config_pb2.Configuration:
    """The configuration of a queues.yaml text (bytes: UTF-8); no text (empty or blank) stands for the built-in default.
    Raises Invalid with every problem, each with its path and line."""
    if isinstance(text, bytes):
        text = decode(text)
    if compatibility not in COMPATIBILITIES:
        raise Invalid([unknown_compatibility("compatibility", compatibility)])
    if not text.strip():
        text, source = BUILT_IN, "built-in"
    try:
        document = read(text)
    except Unreadable as error:
        raise Invalid([Problem("", error.line, error.message)]) from error
    queues, findings, left_out = parse(document)
    if () not in left_out:
        findings = findings + verify(queues, left_out)
    if findings:
        raise Invalid(_place(document, findings))
    return build(queues, text, source, compatibility)


def decode(text: bytes) -> str:
    """Raises Invalid, with the line of the first byte that is not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise Invalid([Problem("", line, f"byte 0x{text[error.start]:02x} is not UTF-8")]) from error


def _place(document: Document, findings: list[Finding]) -> list[Problem]:
    problems = [Problem(spell(path), document.line(path), _shorten(message)) for path, message in findings]
    return sorted(problems, key=lambda problem: problem.line)


def _shorten(message: str) -> str:
    return (
        message if len(message) <= limits.MAX_MESSAGE_CHARACTERS else f"{message[: limits.MAX_MESSAGE_CHARACTERS]}..."
    )


def check_extra(extra: Mapping[str, str]) -> list[Problem]:
    """Problems of the keys of an RM's `extraConfig` that concern the configuration; other keys are other people's."""
    problems = []
    if "queues.yaml" in extra:
        problems.append(Problem('extraConfig["queues.yaml"]', 0, "the queues belong into the field config"))
    if (value := extra.get("compatibility", "none")) not in COMPATIBILITIES:
        problems.append(unknown_compatibility("extraConfig.compatibility", value))
    return problems + timing(extra)[1]


TIMES = {f"timing.{field.name.removesuffix('_ms')}": field.name for field in config_pb2.Timing.DESCRIPTOR.fields}


def timing(extra: Mapping[str, str]) -> tuple[config_pb2.Timing, list[Problem]]:
    """The `timing.` keys of an RM's `extraConfig`, such as `timing.completing: 30s`, and what is wrong with them."""
    times, problems = config_pb2.Timing(), []
    for key, value in extra.items():
        path = f"extraConfig[{key!r}]"
        if key in TIMES:
            if (ms := properties.delay_ms(value)) is None:
                problems.append(Problem(path, 0, f"{value!r}: {properties.A_DURATION}"))
            else:
                setattr(times, TIMES[key], ms)
        elif key.startswith("timing."):
            problems.append(Problem(path, 0, f"unknown key: expected one of {', '.join(TIMES)}"))
    return times, problems


def unknown_compatibility(path: str, value: str) -> Problem:
    return Problem(path, 0, f"unknown value {value!r}: expected one of {', '.join(COMPATIBILITIES)}")
