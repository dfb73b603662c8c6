"""What must hold of the spans of any tree."""

from collections.abc import Iterable

from dissectors.wire.node import Node


def hole(nodes: Iterable[Node], start: int, end: int) -> str | None:
    """Says where the leaves and the prefixes of their parents do not cover [start, end) once; None where they do."""
    at = start
    for node in nodes:
        if node.start != at:
            return f"{node.name} begins at byte {node.start}, the field before it ended at {at}"
        if node.children:
            first = node.children[0].start
            if first < node.start:
                return f"{node.name} begins at byte {node.start}, its first part at {first}"
            inner = hole(node.children, first, node.end)
            if inner:
                return f"{node.name}: {inner}"
        at = node.end
    return None if at == end else f"the last field ends at byte {at}, not at {end}"
