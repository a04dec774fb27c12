"""Texts of queues.yaml for the tests, and what is wrong with them in a form that is easy to compare."""

from __future__ import annotations

import textwrap

import remuda_config


def partition(text: str) -> str:
    """One partition `default` with the keys in `text`."""
    return "partitions:\n  - name: default\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "    ") + "\n"


def queues(text: str) -> str:
    """One partition whose root has the queues in `text`; its first queue is `partitions[0].queues[0].queues[0]`."""
    below = textwrap.indent(textwrap.dedent(text).strip("\n"), "      ")
    return partition("queues:\n  - name: root\n    queues:\n" + below)


def rules(text: str) -> str:
    """Placement rules above leaf a, marked parent p, and parent n with the leaves x and Big."""
    tree = """
queues:
  - name: root
    queues:
      - name: a
      - name: p
        parent: true
      - name: n
        queues:
          - name: x
          - name: Big
"""
    return partition("placementrules:\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "  ") + tree)


def problems(text: str) -> list[tuple[str, int, str]]:
    """[] when the text is accepted. Paths without the part that all of `queues` share."""
    try:
        remuda_config.load(text)
    except remuda_config.Invalid as error:
        shared = "partitions[0].queues[0].queues"
        return [(problem.path.removeprefix(shared), problem.line, problem.message) for problem in error.problems]
    return []
