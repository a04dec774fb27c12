"""Nodes as blocks, one each, as high as its scarcest resource is used. Pure."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from remuda_operations.queries.rows import Node, Nodes

HEIGHTS = " ▁▂▃▄▅▆▇█"


def node_line(rm: str, found: Nodes, width: int) -> Text:
    """One block per node, as high as its scarcest resource is used."""
    nodes = _all(found)
    text = Text.assemble((f"{rm + ' nodes':<11} ", "bold"))
    for node in nodes[: max(1, width - text.cell_len - 6)]:
        text.append(*_block(node))
    return cut(text, width)


def node_grid(rm: str, found: Nodes, width: int) -> list[RenderableType]:
    nodes = _all(found)
    mean = sum(map(_share, nodes)) / max(1, len(nodes))
    title = Text.assemble((f"{rm}: {len(nodes)} nodes", "bold"), (f", {mean:.0%} used on average", "dim"))
    lines: list[RenderableType] = [cut(title, width)]
    per_line = max(1, width // 2)
    for start in range(0, len(nodes), per_line):
        line = Text()
        for node in nodes[start : start + per_line]:
            block, style = _block(node)
            line.append(block, style)
            line.append(" ")
        lines.append(line)
    return lines


def _block(node: Node) -> tuple[str, str]:
    return HEIGHTS[max(1, min(8, round(_share(node) * 8)))], "blue on grey23"


def _share(node: Node) -> float:
    shares = [
        (node.allocated.get(name, 0) + node.occupied.get(name, 0)) / total
        for name, total in node.capacity.items()
        if total
    ]
    return max(shares, default=0.0)


def _all(found: Nodes) -> list[Node]:
    return sorted((node for partition in found.partitions for node in partition.nodes), key=lambda node: node.id)


def cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text
