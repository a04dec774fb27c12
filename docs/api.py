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
RPC = re.compile(r"((?:^  // .*\n)*)^  rpc (\w+)\(", re.MULTILINE)
CALLERS = {
    Access.RM: "operators; an RM for itself",
    Access.OPERATOR: "operators",
    Access.ACT: "operators, by access lists",
}


def tables() -> str:
    """Writes the tables of methods by service and callers, in the order of the methods."""
    known = {(method.service, method.name): method for method in methods()}
    lines = []
    for service in SERVICES:
        rows: dict[Access, list[str]] = {}
        for name, said in _rpcs(service.file.name, service.name):
            rows.setdefault(known[service.full_name, name].access, []).append(f"- `{name}`: {said}")
        lines += [f"### {service.full_name}", ""]
        for access, listed in rows.items():
            lines += [f"For {CALLERS[access]}:", "", *listed, ""]
    return "\n".join(lines)


def _rpcs(file: str, service: str) -> Iterator[tuple[str, str]]:
    """Name of each method of a service, and the first sentence of its comment."""
    text = (PROTOS / file).read_text()
    begin = text.index(f"service {service} {{")
    for found in RPC.finditer(text[begin : text.index("\n}\n", begin)]):
        said = " ".join(line.strip().removeprefix("// ") for line in found[1].splitlines())
        yield found[2], said.partition(". ")[0].removesuffix(".")


if __name__ == "__main__":
    main(Path(__file__).with_name("api.md"), {"<!-- written by docs/api.py -->": tables()})
