"""A diagnosis begins exactly at the first item on the wire that the right layout would not have there.

The tests find that item in another way: they write the same values in both layouts, split both frames into their
items (a value, a count, a mark, a tag buffer, a tag), and compare the two lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import pytest

from dissectors.diagnosis import diagnose
from dissectors.diagnosis.candidates import single_edits
from dissectors.diagnosis.first_difference import first_difference
from dissectors.edits import Edit, frame_layout, write
from dissectors.messages.message import api_layouts, read_request, read_response
from dissectors.schemas import api_by_name
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Field, Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk
from tests.dissectors.diagnosis.cluster_values import Realistic


class Item(NamedTuple):
    """Bytes that a reader takes in one step: their path in the values, and their encoding."""

    path: tuple[str, ...]
    written: tuple[object, ...]
    start: int


def items(layout: Layout, nodes: list[Node], path: tuple[str, ...] = ()) -> Iterator[Item]:
    """Yield the items of a struct in wire order."""
    for field, node in zip(layout.fields, nodes, strict=False):
        yield from _items_of_field(field, node, (*path, field.name))
    if layout.flexible:
        yield from _items_of_tags(layout, nodes[-1], (*path, "_tags"))


def _items_of_field(field: Field, node: Node, path: tuple[str, ...]) -> Iterator[Item]:
    written = (field.type, field.array, field.length, field.writes)
    if field.array:
        yield Item(path, written, node.start)
        for child in node.children:
            if field.struct is not None:
                yield from items(field.struct, child.children, (*path, child.name))
            else:
                yield Item((*path, child.name), (field.type, field.element_length), child.start)
    elif field.struct is not None:
        if field.length is not None:
            yield Item(path, written, node.start)
        if node.children:
            yield from items(field.struct, node.children, path)
    else:
        yield Item(path, written, node.start)


def _items_of_tags(layout: Layout, node: Node, path: tuple[str, ...]) -> Iterator[Item]:
    fields_by_name = {field.name: field for field in layout.tagged}
    yield Item(path, (layout.tag_fault == "twice",), node.start)
    for child in node.children:
        known_field = fields_by_name.get(child.name)
        has_wrong_size = (
            known_field is not None and layout.wrong_size is not None and layout.wrong_size[0] == known_field.tag
        )
        yield Item((*path, child.name), (has_wrong_size,), child.start)
        if known_field is not None:
            yield from _items_of_field(known_field, child.children[0], (*path, child.name))


def _enclosing_tags(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (path[: index + 2] for index, name in enumerate(path[:-1]) if name == "_tags")


def first_deviating_byte(kafka_layout: Layout, edit: Edit, values: dict[str, Any]) -> int | None:
    """Return the offset of the first deviating byte of a frame written under an edit, or None if none deviates."""
    written_layout = edit.apply(kafka_layout)
    item_lists = []
    frames = write(edit, kafka_layout, values), write(None, kafka_layout, values)
    for layout, frame in zip((written_layout, kafka_layout), frames, strict=True):
        walked = walk(layout, frame, 4)
        assert walked.error is None
        item_lists.append(list(items(layout, walked.nodes)))
    written_items, correct_items = item_lists
    paths = {item.path for item in written_items}
    correct_items = [
        item for item in correct_items if all(tag in paths for tag in _enclosing_tags(item.path))
    ]  # tags are optional
    for item, correct_item in zip(written_items, correct_items, strict=False):
        if item[:2] != correct_item[:2]:
            return item.start
    if len(written_items) > len(correct_items):
        return written_items[len(correct_items)].start
    return len(frames[0]) if len(written_items) < len(correct_items) else None


@functools.cache
def kafka_frame_layout(api: str, version: int, is_request: bool) -> Layout:
    api_entry = api_by_name(api)
    assert api_entry is not None
    layouts = api_layouts(api_entry.key, version)
    assert layouts is not None
    if is_request:
        return frame_layout(layouts.request_header, layouts.request)
    return frame_layout(layouts.response_header, layouts.response)


#: API, version, and whether it is the request.
MessageKey = tuple[str, int, bool]

MESSAGES: list[MessageKey] = [
    ("ApiVersions", 0, False), ("ApiVersions", 3, False), ("Metadata", 0, False), ("Metadata", 5, False),
    ("Metadata", 12, False), ("Metadata", 9, True), ("FindCoordinator", 0, False), ("FindCoordinator", 4, True),
    ("JoinGroup", 2, False), ("JoinGroup", 6, True), ("ListOffsets", 2, False), ("Fetch", 5, False),
    ("Fetch", 12, False), ("Fetch", 12, True), ("Fetch", 17, False), ("Produce", 2, False), ("Produce", 9, True),
    ("Produce", 10, False), ("Heartbeat", 1, False), ("OffsetFetch", 8, False), ("DeleteTopics", 5, True),
    ("ConsumerGroupHeartbeat", 0, False), ("DescribeConfigs", 3, False),
]  # fmt: skip


def trials(message: MessageKey, *, shuffled: Random | None = None) -> Iterator[tuple[Edit, dict[str, Any]]]:
    """Yield every candidate edit of a message with values that both layouts can hold."""
    kafka_layout = kafka_frame_layout(*message)
    candidates = [*enumerate(single_edits(kafka_layout, message[1]))]
    if shuffled is not None:
        shuffled.shuffle(candidates)
    for number, candidate in candidates:
        values = Realistic(number).values(kafka_layout)
        _fill_in(values, Realistic(number).values(candidate.layout))  # fields of other versions
        values["header"]["correlation_id"] = 1
        try:
            write(candidate.edit, kafka_layout, values)
        except EncodeError:
            continue  # an integer that is too large for the width
        yield candidate.edit, values


def _fill_in(values: dict[str, Any], more_values: dict[str, Any]) -> None:
    for name, other in more_values.items():
        match values.setdefault(name, other), other:
            case dict() as inner, dict():
                _fill_in(inner, other)
            case [dict(), *_] as elements, [dict(), *_]:
                for index, element in enumerate(elements):
                    _fill_in(element, other[index % len(other)])


def misplaced_trials(message: MessageKey, accepts: Callable[[Edit], bool], *, step: int = 1) -> list[str]:
    """Return the trials of a message whose first difference is not found where they first deviate."""
    kafka_layout, misplaced, count = kafka_frame_layout(*message), [], 0
    for edit, values in islice(trials(message), 0, None, step):
        if not accepts(edit):
            continue
        frame, written = write(edit, kafka_layout, values), edit.apply(kafka_layout)
        deviation = first_difference(kafka_layout, written, walk(written, frame, 4).nodes, 4)
        actual, expected = deviation.start if deviation else None, first_deviating_byte(kafka_layout, edit, values)
        count += 1
        if actual != expected:
            misplaced.append(f"{edit.kind} {edit.field}: {actual}, not {expected} in {frame.hex()}")
    assert count
    return misplaced


def is_tag_size(edit: Edit) -> bool:
    return edit.kind == "tag_size"


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.wide)], ids=["sample", "all"])
@pytest.mark.parametrize("message", MESSAGES, ids=str)
def test_first_difference_is_found_exactly(message: MessageKey, step: int) -> None:
    assert not misplaced_trials(message, lambda edit: not is_tag_size(edit), step=step)


@pytest.mark.parametrize("message", [("ApiVersions", 3, False), ("Fetch", 12, True)], ids=str)
def test_first_difference_of_a_tag_with_a_wrong_size_is_found_exactly(message: MessageKey) -> None:
    assert not misplaced_trials(message, is_tag_size)


@pytest.mark.parametrize("message_key", MESSAGES, ids=str)
def test_diagnosis_begins_at_the_first_difference(message_key: MessageKey) -> None:
    api, version, is_request = message_key
    kafka_layout = kafka_frame_layout(*message_key)
    api_entry = api_by_name(api)
    assert api_entry is not None
    usable_trials = (trial for trial in trials(message_key, shuffled=Random(version)) if not is_tag_size(trial[0]))
    for edit, values in islice(usable_trials, 4):
        if is_request:
            values["header"] |= {"request_api_key": api_entry.key, "request_api_version": version}
        frame = write(edit, kafka_layout, values)
        message = read_request(frame) if is_request else read_response(frame, api_entry.key, version)
        diagnosis = diagnose(message)
        if diagnosis is not None and diagnosis.edit == edit:
            assert diagnosis.start == first_deviating_byte(kafka_layout, edit, values), f"{edit} {frame.hex()}"
