"""Place: where in a frame the layout that it is written in first departs from the right one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dissectors.layout import Field, Layout
from dissectors.node import Node


@dataclass(frozen=True, slots=True)
class Place:
    """The path of what departs, and its bytes: none where something is missing.

    `wanted` is the field that should stand there, `there` the one that does; None is the end of the struct's fields.
    """

    path: tuple[str, ...]
    start: int
    end: int
    wanted: Field | None
    there: Field | None


def first_departure(right: Layout, written: Layout, nodes: list[Node], start: int) -> Place | None:
    """Compare two layouts of a struct in wire order, along the nodes that were read in `written`.

    Args:
        right: How it should be.
        written: How it was read.
        nodes: The fields of the struct as the walk over `written` gives them.
        start: The struct's first byte.

    Returns:
        None if nothing in these bytes departs, e.g. because the array that would show it is empty.
    """
    at = start
    for index, there in enumerate(written.fields):
        wanted = right.fields[index] if index < len(right.fields) else None
        node = nodes[index] if index < len(nodes) else Node(there.name, at, at)
        if wanted is not there and wanted != there:
            if wanted is None or _shape(wanted) != _shape(there):
                return _place(right, written, index, node)
            assert wanted.struct is not None
            assert there.struct is not None
            if found := _inside(wanted, there, node):
                return replace(found, path=(there.name, *found.path))
        at = node.end
    if len(right.fields) > len(written.fields):
        wanted = right.fields[len(written.fields)]
        return Place((wanted.name,), at, at, wanted, None)
    if (right.flexible, right.tagged, right.tag_fault) != (written.flexible, written.tagged, written.tag_fault):
        tags = nodes[-1] if nodes and nodes[-1].name == "_tags" else Node("_tags", at, at)
        end = tags.end if written.flexible else at
        return Place(("_tags",), at, end, None, None)
    return None


def _place(right: Layout, written: Layout, index: int, node: Node) -> Place:
    """What departs at an index of a struct: a field that is missing there, or one that should not be there, or so."""
    wanted = right.fields[index] if index < len(right.fields) else None
    there = written.fields[index]
    names, have = [one.name for one in right.fields], [one.name for one in written.fields]
    if wanted is not None and wanted.name not in have:
        return Place((wanted.name,), node.start, node.start, wanted, there)
    if there.name in names and have.count(there.name) == 1 and wanted is not None and wanted.name != there.name:
        # One of two has moved: the one whose neighbours are not what they should be.
        moved = there.name if _moved_here(names, have, there.name) else wanted.name
        end = node.end if moved == there.name else node.start
        return Place((moved,), node.start, end, wanted, there)
    return Place((there.name,), node.start, node.end, wanted, there)


def _moved_here(names: list[str], have: list[str], name: str) -> bool:
    """Whether taking that name out of both leaves the same order."""
    return [each for each in names if each != name] == [each for each in have if each != name]


def _shape(one: Field) -> tuple[object, ...]:
    return (one.name, one.type, one.array, one.nullable, one.length, one.element_length, one.writes)


def _inside(wanted: Field, there: Field, node: Node) -> Place | None:
    assert wanted.struct is not None
    assert there.struct is not None
    if not there.array:
        children = node.children
        return first_departure(wanted.struct, there.struct, children, node.start) if children else None
    for element in node.children:
        if found := first_departure(wanted.struct, there.struct, element.children, element.start):
            return replace(found, path=(element.name, *found.path))
    return None
