"""Turns a text of queues.yaml into a `Configuration`, without IO: parse, validate, verify, build."""

from __future__ import annotations

from typing import NamedTuple

from remuda_config import limits
from remuda_config.advice import advise
from remuda_config.build import BUILT_IN, build
from remuda_config.problems import Finding, Invalid, Problem, spell
from remuda_config.schema import NotYaml, Queues, YamlDocument, read_yaml, validate
from remuda_config.verify import verify
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import config_pb2

COMPATIBILITIES = ("none", "yunikorn-1.4")


def load(text: str | bytes, source: str = "", compatibility: str = "none") -> config_pb2.Configuration:
    """Returns the configuration of a text of queues.yaml (bytes: UTF-8).

    An empty or blank text is the built-in default. Raises Invalid with every problem, each with its path and line.
    """
    if isinstance(text, bytes):
        text = decode(text)
    if compatibility not in COMPATIBILITIES:
        raise Invalid([unknown_compatibility("compatibility", compatibility)])
    if not text.strip():
        text, source = BUILT_IN, "built-in"
    document, queues, findings = _read(text, compatibility)
    if findings:
        raise Invalid(_place(document, findings))
    return build(queues, text, source, compatibility)


def findings_in(text: str) -> list[Finding]:
    """Returns what `load` would refuse, with the path of each value as a tuple, for programs that change it. Raises
    Invalid for a text that is not YAML.
    """
    return _read(text)[2]


class AdviceOnText(NamedTuple):
    """The advice of `Advice`, each with its path and line."""

    warnings: list[Problem]
    versions: list[Problem]


def advice_on(text: str) -> AdviceOnText:
    """The checker's advice on a valid text. Raises Invalid."""
    document, queues, findings = _read(text)
    if findings:
        raise Invalid(_place(document, findings))
    return AdviceOnText(*(_place(document, found) for found in advise(queues)))


def _read(text: str, compatibility: str = "none") -> tuple[YamlDocument, Queues, list[Finding]]:
    try:
        document = read_yaml(text)
    except NotYaml as error:
        raise Invalid([Problem("", error.line, error.message)]) from error
    queues, findings, left_out = validate(document)
    if () not in left_out:
        findings = findings + verify(queues, left_out, compatibility)
    return document, queues, findings


def decode(text: bytes) -> str:
    """Decodes UTF-8. Raises Invalid, with the line of the first byte that is not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise Invalid([Problem("", line, f"byte 0x{text[error.start]:02x} is not UTF-8")]) from error


def _place(document: YamlDocument, findings: list[Finding]) -> list[Problem]:
    problems = [Problem(_shorten(spell(path)), document.line(path), _shorten(message)) for path, message in findings]
    return sorted(problems, key=lambda problem: problem.line)


def _shorten(message: str) -> str:
    return (
        message if len(message) <= limits.MAX_MESSAGE_CHARACTERS else f"{message[: limits.MAX_MESSAGE_CHARACTERS]}..."
    )


def unknown_compatibility(path: str, value: str) -> Problem:
    return Problem(path, 0, f"unknown value {shown(value)}: expected one of {', '.join(COMPATIBILITIES)}")
