"""Finds the first byte of a frame at which its layout differs from the right one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dissectors.wire.layout import Field, Layout, layout_of_element
from dissectors.wire.node import Node


@dataclass(frozen=True, slots=True)
class Difference:
    """The path of what departs, and its bytes: none where something is missing.

    `wanted` is the field that should stand there, `there` the one that does; None is the end of the struct's fields.
    """

    path: tuple[str, ...]
    start: int
    end: int
    wanted: Field | None
    there: Field | None


def first_departure(right: Layout, written: Layout, nodes: list[Node], start: int) -> Difference | None:
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
            if wanted is None or _shape(wanted) != _shape(there) or (_is_null(node) and not wanted.nullable):
                return _place(right, written, index, node)
            if found := _inside(wanted, there, node):
                return replace(found, path=(there.name, *found.path))
        at = node.end
    if len(right.fields) > len(written.fields):
        wanted = right.fields[len(written.fields)]
        return Difference((wanted.name,), at, at, wanted, None)
    return _in_tags(right, written, nodes[-1] if nodes and nodes[-1].name == "_tags" else Node("_tags", at, at))


def _in_tags(right: Layout, written: Layout, tags: Node) -> Difference | None:
    """What departs in a tag buffer: all of it, or one field in it."""
    if right.tag_fault != written.tag_fault and written.tag_fault.startswith("size "):
        tag = int(written.tag_fault.removeprefix("size "))
        names = {one.name for one in written.tagged if one.tag == tag}
        at = next((node for node in tags.children if node.name in names), None)
        return Difference(("_tags", at.name), at.start, at.end, None, None) if at else None
    if right.flexible != written.flexible or right.tag_fault != written.tag_fault:
        return Difference(("_tags",), tags.start, tags.end, None, None)
    wanted = {one.name: one for one in right.tagged}
    there = {one.name: one for one in written.tagged}
    for node in tags.children:
        known, read = wanted.get(node.name), there.get(node.name)
        if read is None or known == read:
            continue
        if known is None or _shape(known) != _shape(read):
            return Difference(("_tags", node.name), node.start, node.end, known, read)
        if node.children and (found := _inside(known, read, node.children[0])):
            return replace(found, path=("_tags", node.name, *found.path))
    return None


def _place(right: Layout, written: Layout, index: int, node: Node) -> Difference:
    """What departs at an index of a struct: a field that is missing there, or one that should not be there, or so."""
    wanted = right.fields[index] if index < len(right.fields) else None
    there = written.fields[index]
    names, have = [one.name for one in right.fields], [one.name for one in written.fields]
    if wanted is not None and wanted.name not in have:
        return Difference((wanted.name,), node.start, node.start, wanted, there)
    if there.name in names and have.count(there.name) == 1 and wanted is not None and wanted.name != there.name:
        # One of two has moved: the one whose neighbours are not what they should be.
        moved = there.name if _moved_here(names, have, there.name) else wanted.name
        end = node.end if moved == there.name else node.start
        return Difference((moved,), node.start, end, wanted, there)
    return Difference((there.name,), node.start, node.end, wanted, there)


def _moved_here(names: list[str], have: list[str], name: str) -> bool:
    """Whether taking that name out of both leaves the same order."""
    return [each for each in names if each != name] == [each for each in have if each != name]


def _shape(one: Field) -> tuple[object, ...]:
    """How a field begins on the wire; what its elements look like shows in them."""
    return (one.name, one.array, one.length) if one.array else (one.name, one.type, one.array, one.length)


def _element(one: Field) -> tuple[object, ...]:
    return (one.type, one.element_length, one.struct is None)


def _is_null(node: Node) -> bool:
    return node.value is None and not node.children


def _inside(wanted: Field, there: Field, node: Node) -> Difference | None:
    if not there.array:
        if wanted.struct is None or there.struct is None or not node.children:
            return None
        return first_departure(wanted.struct, there.struct, node.children, node.children[0].start)
    for element in node.children:
        if _element(wanted) != _element(there):
            return Difference((element.name,), element.start, element.end, wanted, there)
        if wanted.struct is None or there.struct is None:
            return None
        layout = layout_of_element(there, int(element.name))
        if found := first_departure(wanted.struct, layout, element.children, element.start):
            return replace(found, path=(element.name, *found.path))
    return None
