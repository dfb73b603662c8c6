"""A check of the byte spans of a tree."""

from collections.abc import Iterable

from dissectors.wire.node import Node


def find_gap(nodes: Iterable[Node], start: int, end: int) -> str | None:
    """Describe where leaves and their parents' prefixes fail to cover [start, end) exactly once, or return None."""
    position = start
    for node in nodes:
        if node.start != position:
            return f"{node.name} begins at byte {node.start}, the field before it ended at {position}"
        if node.children:
            children_start = node.children[0].start
            if children_start < node.start:
                return f"{node.name} begins at byte {node.start}, its first part at {children_start}"
            inner_gap = find_gap(node.children, children_start, node.end)
            if inner_gap:
                return f"{node.name}: {inner_gap}"
        position = node.end
    return None if position == end else f"the last field ends at byte {position}, not at {end}"
