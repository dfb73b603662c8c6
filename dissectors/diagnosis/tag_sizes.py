"""Find out by how much the size of a tagged field is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dissectors.diagnosis.length_prefixes import read_uvarint
from dissectors.edits import Edit
from dissectors.edits.targets import field_name_of, path_parts
from dissectors.wire.layout import Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.end = data, len(data)


def with_tag_sizes(edit: Edit, frame: bytes, layout: Layout) -> Edit:
    """Return the edit with the actual error (`delta`) of each wrong size filled in.

    Args:
        edit: An edit from the search, which has found only that a size is wrong.
        frame: The frame, including its length prefix.
        layout: The layout in which the frame was read under the edit.
    """
    next_edit = with_tag_sizes(edit.then, frame, layout) if edit.then else None
    if edit.kind == "tag_size":
        detail = dict(edit.detail)
        deltas = (
            _size_error(frame, node) for node in _tag_nodes(walk(layout, frame, 4).nodes, edit, detail["tag"], layout)
        )
        delta = next((error for error in deltas if error), detail["delta"])
        edit = Edit.of("tag_size", edit.field, tag=detail["tag"], delta=delta)
    return replace(edit, then=next_edit)


def _size_error(frame: bytes, node: Node) -> int:
    """Return the stated size of a tagged field minus the actual size of its value."""
    data = _Bytes(frame)
    _, pos = read_uvarint(data, node.start)
    size, pos = read_uvarint(data, pos)
    return size - (node.end - pos)


def _tag_nodes(nodes: list[Node], edit: Edit, tag: int, layout: Layout) -> Iterator[Node]:
    """Yield the nodes of a tag in the structs to which the edit's field belongs."""
    path = ["body", *map(field_name_of, path_parts(edit.field)[:-1])]
    structs: list[tuple[list[Node], Layout]] = [(nodes, layout)]
    for name in path:
        nested = []
        for siblings, struct in structs:
            field = next((field for field in (*struct.fields, *struct.tagged) if field.name == name), None)
            if field is None or field.struct is None:
                continue
            for node in _nodes_named(siblings, name):
                elements = node.children if field.array else [node]
                nested += [(element.children, field.struct) for element in elements]
        structs = nested
    for siblings, struct in structs:
        names = {field.name for field in struct.tagged if field.tag == tag}
        for buffer in siblings:
            if buffer.name == "_tags":
                yield from (node for node in buffer.children if node.name in names)


def _nodes_named(nodes: list[Node], name: str) -> Iterator[Node]:
    """Yield the nodes of a field, tagged or not."""
    for node in nodes:
        if node.name == name:
            yield node
        elif node.name == "_tags":
            yield from (field for tag in node.children for field in tag.children if field.name == name)
