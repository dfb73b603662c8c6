"""Candidates: the edits that are worth a try on a layout, with how rare each is, in bits.

They come from the schema history of the message: every field that any version has, at every place among its siblings.
The prior follows what servers and clients were seen to do (throttle_time_ms is misplaced most of all).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dissectors import schemas
from dissectors.edits import Edit, EditError
from dissectors.edits.fields import INTEGERS
from dissectors.layout import WIDTHS, Field, Layout
from dissectors.layout import layout as layout_of
from dissectors.schemas import VersionRange

THROTTLE = "throttle_time_ms"

#: The prior, in bits, of the departures that servers are known for.
COMMON = 6.0

#: Bits that it costs that one element of several is written otherwise than the others.
ONE_ELEMENT = 6.0

#: Bits that a second edit costs beside its own.
SECOND = 8.0

#: The prior of the rarest edit that is tried as a second one.
SECOND_MOST = 7.5


class Candidate(NamedTuple):
    """An edit, the layout that it makes of a frame's, and its prior in bits."""

    edit: Edit
    layout: Layout
    prior: float


class _Others(NamedTuple):
    """What other versions have in a struct.

    Fields that it lacks, by name: the nearest version that has it, and its place there. Fields that may be null, with
    the first version in which they may. Tagged fields that it lacks, with their tags. The first version that has each
    field, unless that is this one alone.
    """

    fields: dict[str, tuple[int, int]]
    nullable: dict[str, int]
    tags: dict[str, int]
    since: dict[str, int]


def versions(name: str) -> VersionRange:
    """Every version of a message."""
    return VersionRange.parse(schemas.message(name)["versions"])


def header_of(name: str, version: int) -> int:
    """The header version that goes with a version of a message."""
    is_request = name.endswith("Request")
    api = schemas.api_by_name(name.removesuffix("Request" if is_request else "Response"))
    assert api is not None
    return schemas.header_versions(api.key, version)[0 if is_request else 1]


def singles(frame: Layout, version: int, most: float = float("inf")) -> tuple[Candidate, ...]:
    """The edits of a frame's layout that make another one of it, the most common first.

    Args:
        frame: As `dissectors.edits.frame_layout` makes it, of that version or with an edit applied.
        version: The version that its body should have.
        most: The prior of the rarest that is wanted, in bits.
    """
    made: tuple[Candidate, ...] | None = frame.cache.get(("singles", most))
    if made is None:
        found: list[Candidate] = []
        for edit, prior in _edits(frame, version):
            if prior > most:
                continue
            try:
                layout = edit.apply(frame)
            except EditError:
                continue
            if edit.field != "*" or layout != frame:
                found.append(Candidate(edit, layout, prior))
        found.sort(key=lambda candidate: candidate.prior)
        made = frame.cache[("singles", most)] = tuple(found)
    return made


def in_one_element(frame: Layout, version: int, elements: dict[str, list[int]]) -> tuple[Candidate, ...]:
    """The edits of the structs in arrays of the body, each of one element alone.

    Args:
        frame: The right layout.
        version: Of its body.
        elements: The indexes to try, by the name of the array.
    """
    found: list[Candidate] = []
    for candidate in singles(frame, version):
        name, array, _ = candidate.edit.field.partition("[].")
        for index in elements.get(name, ()) if array else ():
            edit = replace(candidate.edit, field=candidate.edit.field.replace("[]", f"[{index}]", 1))
            found.append(Candidate(edit, edit.apply(frame), candidate.prior + ONE_ELEMENT))
    return tuple(found)


def _edits(frame: Layout, version: int) -> Iterator[tuple[Edit, float]]:
    header, body = (one.struct for one in frame.fields)
    assert header is not None
    assert body is not None
    yield from _of_header(header)
    yield from _of_body(body, version)
    for path, struct, others in _structs(body, _history(body.name, version), ()):
        yield from _of_struct(path, struct, others, version)


def _of_header(header: Layout) -> Iterator[tuple[Edit, float]]:
    for written in versions(header.name):
        yield (
            Edit.of("header_version", "header", written=written),
            6.0 if header.name == "RequestHeader" and not written else 5.0,
        )
    if header.name == "ResponseHeader":
        yield Edit.of("duplicated_prefix", "header.correlation_id", prefix="correlation_id"), 7.0
        yield Edit.of("duplicated_prefix", "size", prefix="size"), 9.0
    else:
        yield Edit.of("length_encoding", "header.client_id", written="compact"), 9.0
        for index, one in enumerate(header.fields):
            if one.name == "client_id":
                yield Edit.of("field_missing", "header.client_id", where=index), 9.0
    if header.flexible:
        yield Edit.of("tag_buffer_extra", "header._tags"), 9.0


def _of_body(body: Layout, version: int) -> Iterator[tuple[Edit, float]]:
    for other in versions(body.name):
        if other != version:
            edit = Edit.of("body_version", "*", body_version=other, header=None)
            prior = 5.0 + 0.25 * abs(other - version)
            yield edit, prior
            if (wanted := header_of(body.name, other)) != header_of(body.name, version):
                yield Edit.of("body_version", "*", body_version=other, header=wanted), prior + 0.5
    yield Edit.of("flexibility", "*", written="fixed" if body.flexible else "compact"), 5.0
    if body.name.endswith("Response"):
        yield Edit.of("generic_error_body", "*"), 5.5
    yield Edit.of("length_encoding", "*", written="fixed" if body.flexible else "compact"), 6.5
    if body.flexible:
        yield Edit.of("length_off_by_one", "*", delta=-1), 7.5
        yield Edit.of("length_off_by_one", "*", delta=1), 8.0


def _of_struct(path: tuple[str, ...], struct: Layout, others: _Others, version: int) -> Iterator[tuple[Edit, float]]:
    deeper = 0.3 * len(path)
    fields = struct.fields
    last = len(fields) - 1
    for index, one in enumerate(fields):
        name = _path(path, one.name)
        common = one.name == THROTTLE
        # What is missing is mostly what came last: the writer stopped at an older version.
        age = min(others.since.get(one.name, version), version)
        prior = 4.0 if common else 5.5 if age == version > 0 else 6.2 if age else 6.5
        yield Edit.of("field_missing", name, where=index), prior + deeper
        for to in range(len(fields)):
            if to != index and to != index + 1:  # one place on is the next field one place back
                far = to in (0, last)
                prior = (4.0 if far else 6.5) if common else 8.0 if far or to == index - 1 else 10.0
                yield Edit.of("field_moved", name, from_=index, to=to), prior + deeper
            elif to == index + 1 and common:
                yield Edit.of("field_moved", name, from_=index, to=to), (4.0 if to == last else 6.5) + deeper
        for where in range(len(fields) + 1):
            if where != index:
                prior = 6.0 if common else 8.0 if where in (index + 1, last + 1) else 11.0
                yield Edit.of("field_duplicated", name, where=where), prior + deeper
        yield from _of_field(path, one, others.nullable.get(one.name))
    for name, (from_version, natural) in others.fields.items():
        for place in range(len(fields) + 1):
            prior = 3.5 if name == THROTTLE else 5.0 if place == natural else 6.5 if place in (0, last + 1) else 7.5
            yield (
                Edit.of("field_from_version", _path(path, name), from_version=from_version, place=place),
                prior + deeper,
            )
    tags = _path(path, "_tags")
    if struct.flexible:
        yield Edit.of("tag_buffer_missing", tags), 5.0 + deeper
        for name, tag in others.tags.items():
            yield Edit.of("tag_below_version", _path(path, name), tag=tag), 6.0 + deeper
    yield Edit.of("tag_buffer_extra", tags), (7.5 if struct.flexible else 5.5) + deeper
    for one in struct.tagged:
        yield Edit.of("tag_size", tags, tag=one.tag), 8.0 + deeper


def _of_field(path: tuple[str, ...], one: Field, nullable_from: int | None) -> Iterator[tuple[Edit, float]]:
    name = _path(path, one.name)
    deeper = 0.3 * len(path)
    if one.type in INTEGERS and not one.array:
        for written in INTEGERS:
            if WIDTHS[written] != WIDTHS[one.type]:
                near = max(WIDTHS[written], WIDTHS[one.type]) == 2 * min(WIDTHS[written], WIDTHS[one.type])
                yield Edit.of("int_width", name, written=written), (10.0 if near else 13.0) + deeper
    for of, length in ((name, one.length), (f"{name}[]", one.element_length)):
        if length is None or (one.struct is not None and not one.array):
            continue
        compact = length == "uvarint"
        yield Edit.of("length_encoding", of, written="fixed" if compact else "compact"), 8.0 + deeper
        if compact:
            yield Edit.of("length_off_by_one", of, delta=-1), 9.5 + deeper
            yield Edit.of("length_off_by_one", of, delta=1), 10.5 + deeper
    if one.length is not None and not one.nullable and (one.struct is None or one.array):
        yield Edit.of("null_in_non_nullable", name, nullable_from=nullable_from), 5.0 + deeper


def _path(path: tuple[str, ...], name: str) -> str:
    return ".".join((*path, name))


def _structs(
    struct: Layout, history: tuple[tuple[int, Layout], ...], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Layout, _Others]]:
    """Every struct of a body with its path, and what other versions have in it."""
    yield path, struct, _others(struct, history)
    for one in (*struct.fields, *struct.tagged):
        if one.struct is not None:
            inner = tuple(
                (version, found.struct)
                for version, other in history
                for found in (*other.fields, *other.tagged)
                if found.name == one.name and found.struct is not None
            )
            yield from _structs(one.struct, inner, (*path, one.name + "[]" * one.array))


def _others(struct: Layout, history: tuple[tuple[int, Layout], ...]) -> _Others:
    have = {one.name for one in (*struct.fields, *struct.tagged)}
    made = _Others({}, {}, {}, {})
    for version, other in history:
        for index, one in enumerate(other.fields):
            made.since[one.name] = min(version, made.since.get(one.name, version))
            if one.nullable:
                made.nullable[one.name] = min(version, made.nullable.get(one.name, version))
            if one.name not in have:
                before = {each.name for each in other.fields[:index]}
                place = sum(each.name in before for each in struct.fields)
                made.fields.setdefault(one.name, (version, place))
        for one in other.tagged:
            if one.name not in have and one.tag is not None:
                made.tags[one.name] = one.tag
    return made


@functools.cache
def _history(name: str, version: int) -> tuple[tuple[int, Layout], ...]:
    """The body at every other version, the nearest first, of two as near the later."""
    others = sorted((each for each in versions(name) if each != version), key=lambda each: (abs(each - version), -each))
    return tuple((each, layout_of(name, each)) for each in others)
