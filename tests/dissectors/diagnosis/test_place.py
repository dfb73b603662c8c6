"""The offset is exact: a diagnosis begins at the first item on the wire that the right layout would not have there.

What it should be is worked out another way here: the same values are written in both layouts, both frames are cut into
their items (a value, a count, a mark, a tag buffer, a tag), and the two lists are compared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from dissectors.diagnosis import diagnose
from dissectors.diagnosis.candidates import singles
from dissectors.diagnosis.place import first_departure
from dissectors.edits import Edit, frame_layout, write
from dissectors.edits.places import parts
from dissectors.errors import EncodeError
from dissectors.layout import Field, Layout
from dissectors.message import plan, read_request, read_response
from dissectors.node import Node
from dissectors.schemas import api_by_name
from dissectors.walk import walk
from tests.dissectors.diagnosis.realistic import Realistic


class Item(NamedTuple):
    """Bytes that a reader takes in one step: where they stand in the values, how they are written."""

    path: tuple[str, ...]
    written: tuple[object, ...]
    start: int


def items(layout: Layout, nodes: list[Node], path: tuple[str, ...] = ()) -> Iterator[Item]:
    """The items of a struct in wire order."""
    for one, node in zip(layout.fields, nodes, strict=False):
        yield from _of_field(one, node, (*path, one.name))
    if layout.flexible:
        yield from _of_tags(layout, nodes[-1], (*path, "_tags"))


def _of_field(one: Field, node: Node, path: tuple[str, ...]) -> Iterator[Item]:
    written = (one.type, one.array, one.length, one.writes)
    if one.array:
        yield Item(path, written, node.start)
        for child in node.children:
            if one.struct is not None:
                yield from items(one.struct, child.children, (*path, child.name))
            else:
                yield Item((*path, child.name), (one.type, one.element_length), child.start)
    elif one.struct is not None:
        if one.length is not None:
            yield Item(path, written, node.start)
        if node.children:
            yield from items(one.struct, node.children, path)
    else:
        yield Item(path, written, node.start)


def _of_tags(layout: Layout, node: Node, path: tuple[str, ...]) -> Iterator[Item]:
    known = {one.name: one for one in layout.tagged}
    names = tuple(child.name for child in node.children)
    yield Item(path, (len(names), layout.tag_fault == "twice"), node.start)
    for child in node.children:
        one = known.get(child.name)
        yield Item((*path, child.name), (one is not None and layout.tag_fault == f"size {one.tag}",), child.start)
        if one is not None:
            yield from _of_field(one, child.children[0], (*path, child.name))


def departs_at(right: Layout, edit: Edit, values: dict[str, Any]) -> int | None:
    """The first byte of a frame written under an edit that departs, None if none does."""
    written = edit.apply(right)
    lists = []
    frames = write(edit, right, values), write(None, right, values)
    for layout, frame in zip((written, right), frames, strict=True):
        walked = walk(layout, frame, 4)
        assert walked.error is None
        lists.append(list(items(layout, walked.nodes)))
    there, wanted = lists
    for one, other in zip(there, wanted, strict=False):
        if one[:2] != other[:2]:
            return one.start
    if len(there) > len(wanted):
        return there[len(wanted)].start
    return len(frames[0]) if len(there) < len(wanted) else None


@functools.cache
def frame_of(api: str, version: int, is_request: bool) -> Layout:
    found = api_by_name(api)
    assert found is not None
    known = plan(found.key, version)
    assert known is not None
    if is_request:
        return frame_layout(known.request_header, known.request)
    return frame_layout(known.response_header, known.response)


#: API, version, and whether it is the request.
Of = tuple[str, int, bool]

MESSAGES: list[Of] = [
    ("ApiVersions", 0, False), ("ApiVersions", 3, False), ("Metadata", 0, False), ("Metadata", 5, False),
    ("Metadata", 12, False), ("Metadata", 9, True), ("FindCoordinator", 0, False), ("FindCoordinator", 4, True),
    ("JoinGroup", 2, False), ("JoinGroup", 6, True), ("ListOffsets", 2, False), ("Fetch", 5, False),
    ("Fetch", 12, False), ("Fetch", 12, True), ("Fetch", 17, False), ("Produce", 2, False), ("Produce", 9, True),
    ("Produce", 10, False), ("Heartbeat", 1, False), ("OffsetFetch", 8, False), ("DeleteTopics", 5, True),
    ("ConsumerGroupHeartbeat", 0, False), ("DescribeConfigs", 3, False),
]  # fmt: skip

#: Of these, fields of other versions are tagged, or may be null.
TAGS_OR_NULLS_DIFFER: list[Of] = [("Metadata", 12, False), ("Fetch", 17, False), ("Produce", 10, False)]


def trials(of: Of) -> Iterator[tuple[Edit, dict[str, Any]]]:
    """Every candidate of a message with values that both layouts can hold."""
    right = frame_of(*of)
    for number, candidate in enumerate(singles(right, of[1])):
        values = Realistic(number).values(right)
        _add(values, Realistic(number).values(candidate.layout))  # what other versions have
        values["header"]["correlation_id"] = 1
        try:
            write(candidate.edit, right, values)
        except EncodeError:
            continue  # an integer that is too large for the width
        yield candidate.edit, values


def _add(values: dict[str, Any], others: dict[str, Any]) -> None:
    for name, other in others.items():
        match values.setdefault(name, other), other:
            case dict() as inner, dict():
                _add(inner, other)
            case [dict(), *_] as elements, [dict(), *_]:
                for index, element in enumerate(elements):
                    _add(element, other[index % len(other)])


def through_tags(right: Layout, edit: Edit) -> bool:
    """Whether an edit is of a tag, or of what is inside one."""
    struct = next(one.struct for one in right.fields if one.name == "body")
    for name in parts(edit.field):
        if struct is None or name in {one.name for one in struct.tagged}:
            return struct is not None
        struct = next((one.struct for one in struct.fields if one.name == name), None)
    return edit.kind in ("tag_size", "tag_below_version")


def misplaced(of: Of, only: Callable[[Edit], bool]) -> list[str]:
    """The trials of a message that are not placed where they depart."""
    right, wrong, seen = frame_of(*of), [], 0
    for edit, values in trials(of):
        if not only(edit):
            continue
        frame, written = write(edit, right, values), edit.apply(right)
        place = first_departure(right, written, walk(written, frame, 4).nodes, 4)
        got, expected = place.start if place else None, departs_at(right, edit, values)
        seen += 1
        if got != expected:
            wrong.append(f"{edit.kind} {edit.field}: {got}, not {expected} in {frame.hex()}")
    assert seen
    return wrong


def is_of_elements(edit: Edit) -> bool:
    return edit.field.endswith("[]")


def empties_a_marked_struct(right: Layout, edit: Edit) -> bool:
    """Whether an edit takes the only field of a struct that may be null, and so has a mark before it."""
    struct, one = next(one.struct for one in right.fields if one.name == "body"), None
    for name in parts(edit.field)[:-1]:
        one = next((one for one in struct.fields if one.name == name), None) if struct else None
        struct = one.struct if one else None
    marked = one is not None and one.length is not None and not one.array
    return marked and edit.kind == "field_missing" and struct is not None and len(struct.fields) == 1


def is_placed_right(of: Of, edit: Edit) -> bool:
    """Whether none of the mistakes that are known, each with a test of its own below, concerns an edit."""
    right = frame_of(*of)
    if through_tags(right, edit) or is_of_elements(edit) or empties_a_marked_struct(right, edit):
        return False
    return edit.kind != "body_version" or of not in TAGS_OR_NULLS_DIFFER


@pytest.mark.parametrize("of", MESSAGES, ids=str)
def test_the_first_departure_is_exact(of: Of) -> None:
    assert not misplaced(of, functools.partial(is_placed_right, of))


@pytest.mark.xfail(reason="a struct that may be null is taken to begin at its mark")
def test_the_first_departure_behind_a_mark_is_exact() -> None:
    of = ("ConsumerGroupHeartbeat", 0, False)
    assert not misplaced(of, functools.partial(empties_a_marked_struct, frame_of(*of)))


@pytest.mark.xfail(reason="a tag buffer is taken to depart as a whole, whether or not the tag is there")
@pytest.mark.parametrize("of", [("ApiVersions", 3, False), ("Fetch", 12, False), ("Fetch", 12, True)], ids=str)
def test_the_first_departure_inside_a_tag_is_exact(of: Of) -> None:
    assert not misplaced(of, functools.partial(through_tags, frame_of(*of)))


@pytest.mark.xfail(reason="an array is taken to depart at its count where only its elements do")
@pytest.mark.parametrize("of", [("FindCoordinator", 4, True), ("DeleteTopics", 5, True)], ids=str)
def test_the_first_departure_in_elements_is_exact(of: Of) -> None:
    assert not misplaced(of, is_of_elements)


@pytest.mark.xfail(reason="a field that may be null in one version alone is taken to depart though it is not null")
@pytest.mark.parametrize("of", TAGS_OR_NULLS_DIFFER, ids=str)
def test_the_first_departure_of_another_version_is_exact(of: Of) -> None:
    assert not misplaced(of, lambda edit: edit.kind == "body_version")


@pytest.mark.parametrize("of", MESSAGES, ids=str)
def test_a_diagnosis_begins_at_the_first_departure(of: Of) -> None:
    api, version, is_request = of
    right = frame_of(*of)
    found = api_by_name(api)
    assert found is not None
    usable = [(edit, values) for edit, values in trials(of) if is_placed_right(of, edit)]
    for edit, values in Random(version).sample(usable, 4):
        if is_request:
            values["header"] |= {"request_api_key": found.key, "request_api_version": version}
        frame = write(edit, right, values)
        message = read_request(frame) if is_request else read_response(frame, found.key, version)
        diagnosis = diagnose(message)
        if diagnosis is not None and diagnosis.edit == edit:
            assert diagnosis.start == departs_at(right, edit, values), f"{edit} {frame.hex()}"
