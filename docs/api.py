"""Writes the index of methods of remuda.v1.Admin and remuda.v1.Metrics into api.md.

python -m docs.api [--check]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs.sections import main
from remuda_operations.operator_api.methods import SERVICES, Access, methods

PROTOS = Path(__file__).resolve().parents[1] / "proto"
RPC = re.compile(r"((?:^  // .*\n)*)^  rpc (\w+)\((\w+)\) returns \((?:stream )?(\w+)\);", re.MULTILINE)
CALLERS = {
    Access.RM: "operators; an RM for itself",
    Access.OPERATOR: "operators",
    Access.ACT: "operators, by access lists",
}


def tables() -> str:
    """By service and callers, in the order of the methods."""
    known = {(method.service, method.name): method for method in methods()}
    lines = []
    for service in SERVICES:
        rows: dict[Access, list[str]] = {}
        for name, said, request, response in _rpcs(service.file.name, service.name):
            method = known[service.full_name, name]
            row = f"- `{name}`: {said}{_messages(name, request, response)}"
            rows.setdefault(method.access, []).append(row)
        lines += [f"### {service.full_name}", ""]
        for access, listed in rows.items():
            lines += [f"For {CALLERS[access]}:", "", *listed, ""]
    return "\n".join(lines)


def _messages(name: str, request: str, response: str) -> str:
    """The messages that are not named like the method, except the outcome of an action."""
    takes = "" if request == f"{name}Request" else f" Takes `{request}`."
    returns = "" if response in (f"{name}Response", "ActionOutcome") else f" Returns `{response}`."
    return f"{takes}{returns}"


def _rpcs(file: str, service: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, comment, request and response of each method of a service."""
    text = (PROTOS / file).read_text()
    begin = text.index(f"service {service} {{")
    for found in RPC.finditer(text[begin : text.index("\n}\n", begin)]):
        said = " ".join(line.strip().removeprefix("// ") for line in found[1].splitlines())
        yield found[2], said, found[3], found[4]


if __name__ == "__main__":
    main(Path(__file__).with_name("api.md"), {"<!-- written by docs/api.py -->": tables()})
