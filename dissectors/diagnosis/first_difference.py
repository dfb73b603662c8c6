"""Find the first byte of a frame at which the written layout differs from the correct one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dissectors.wire.layout import Field, Layout, layout_of_element
from dissectors.wire.node import Node


@dataclass(frozen=True, slots=True)
class Difference:
    """The path and the byte range of the first difference; the range is empty if a field is missing.

    `expected` is the field of the correct layout, `actual` the field that was written; None stands for the end of the
    struct's fields.
    """

    path: tuple[str, ...]
    start: int
    end: int
    expected: Field | None
    actual: Field | None


def first_difference(
    correct_layout: Layout, written_layout: Layout, nodes: list[Node], start: int
) -> Difference | None:
    """Compare two layouts of a struct in wire order, along the nodes that were read in `written_layout`.

    Args:
        correct_layout: Kafka's layout.
        written_layout: The layout in which the bytes were read.
        nodes: The fields of the struct, from a walk over `written_layout`.
        start: Offset of the struct's first byte.

    Returns:
        None if the layouts do not differ in these bytes, e.g. because the array that would show it is empty.
    """
    pos = start
    for index, actual in enumerate(written_layout.fields):
        expected = correct_layout.fields[index] if index < len(correct_layout.fields) else None
        node = nodes[index] if index < len(nodes) else Node(actual.name, pos, pos)
        if expected is not actual and expected != actual:
            if expected is None or _shape(expected) != _shape(actual) or (_is_null(node) and not expected.nullable):
                return _difference_at(correct_layout, written_layout, index, node)
            if difference := _nested_difference(expected, actual, node):
                return replace(difference, path=(actual.name, *difference.path))
        pos = node.end
    if len(correct_layout.fields) > len(written_layout.fields):
        expected = correct_layout.fields[len(written_layout.fields)]
        return Difference((expected.name,), pos, pos, expected, None)
    return _tag_difference(
        correct_layout,
        written_layout,
        nodes[-1] if nodes and nodes[-1].name == "_tags" else Node("_tags", pos, pos),
    )


def _tag_difference(correct_layout: Layout, written_layout: Layout, tags: Node) -> Difference | None:
    """Return the difference in a tag buffer: the whole buffer, or one field in it."""
    if correct_layout.tag_fault != written_layout.tag_fault and written_layout.wrong_size:
        tag_names = {field.name for field in written_layout.tagged if field.tag == written_layout.wrong_size[0]}
        tag_node = next((node for node in tags.children if node.name in tag_names), None)
        return Difference(("_tags", tag_node.name), tag_node.start, tag_node.end, None, None) if tag_node else None
    if correct_layout.flexible != written_layout.flexible or correct_layout.tag_fault != written_layout.tag_fault:
        return Difference(("_tags",), tags.start, tags.end, None, None)
    expected = {field.name: field for field in correct_layout.tagged}
    actual = {field.name: field for field in written_layout.tagged}
    for node in tags.children:
        correct_field, written_field = expected.get(node.name), actual.get(node.name)
        if written_field is None or correct_field == written_field:
            continue
        if correct_field is None or _shape(correct_field) != _shape(written_field):
            return Difference(("_tags", node.name), node.start, node.end, correct_field, written_field)
        if node.children and (difference := _nested_difference(correct_field, written_field, node.children[0])):
            return replace(difference, path=("_tags", node.name, *difference.path))
    return None


def _difference_at(correct_layout: Layout, written_layout: Layout, index: int, node: Node) -> Difference:
    """Return the difference at an index of a struct: a missing, extra, moved or differently encoded field."""
    expected = correct_layout.fields[index] if index < len(correct_layout.fields) else None
    actual = written_layout.fields[index]
    correct_names, written_names = (
        [field.name for field in correct_layout.fields],
        [field.name for field in written_layout.fields],
    )
    if expected is not None and expected.name not in written_names:
        return Difference((expected.name,), node.start, node.start, expected, actual)
    if (
        actual.name in correct_names
        and written_names.count(actual.name) == 1
        and expected is not None
        and expected.name != actual.name
    ):
        # One of the two fields has moved: the one whose neighbours are wrong.
        moved = actual.name if _is_only_move(correct_names, written_names, actual.name) else expected.name
        end = node.end if moved == actual.name else node.start
        return Difference((moved,), node.start, end, expected, actual)
    return Difference((actual.name,), node.start, node.end, expected, actual)


def _is_only_move(correct_names: list[str], written_names: list[str], name: str) -> bool:
    """Whether both lists are equal once this name is left out."""
    return [correct_name for correct_name in correct_names if correct_name != name] == [
        written_name for written_name in written_names if written_name != name
    ]


def _shape(field: Field) -> tuple[object, ...]:
    """Return what determines how a field begins on the wire; array elements are compared separately."""
    return (
        (field.name, field.array, field.length) if field.array else (field.name, field.type, field.array, field.length)
    )


def _element_shape(field: Field) -> tuple[object, ...]:
    return (field.type, field.element_length, field.struct is None)


def _is_null(node: Node) -> bool:
    return node.value is None and not node.children


def _nested_difference(expected: Field, actual: Field, node: Node) -> Difference | None:
    if not actual.array:
        if expected.struct is None or actual.struct is None or not node.children:
            return None
        return first_difference(expected.struct, actual.struct, node.children, node.children[0].start)
    for element in node.children:
        if _element_shape(expected) != _element_shape(actual):
            return Difference((element.name,), element.start, element.end, expected, actual)
        if expected.struct is None or actual.struct is None:
            return None
        layout = layout_of_element(actual, int(element.name))
        if difference := first_difference(expected.struct, layout, element.children, element.start):
            return replace(difference, path=(element.name, *difference.path))
    return None
