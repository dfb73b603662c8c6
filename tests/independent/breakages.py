"""The ways to break a frame, by family. Each changes new trees of the header and body, or raises Unfit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random

from tests.independent.definitions import Member, Struct, Values, message, versions
from tests.independent.values import Source

_INTEGERS = ("int8", "int16", "int32", "int64")


@dataclass
class Frame:
    """A frame to write: its trees and values, and the name and version of its body's message."""

    name: str
    version: int
    header_version: int
    header: Struct
    body: Struct
    values: Values
    random: Random
    prefix: str = ""

    def structs(self) -> list[tuple[Struct, list[Values]]]:
        """Return the structs of the body that have values, each with its values."""
        return list(_structs(self.body, [self.values["body"]]))

    def pick(self, accept: Callable[[Member], bool], *, tagged: bool = False) -> tuple[Struct, Member, list[Values]]:
        """Return a random accepted member of a struct that has values."""
        candidates = [
            (struct, member, values)
            for struct, values in self.structs()
            for member in ((*struct.members, *struct.tagged) if tagged else struct.members)
            if accept(member) and any(member.name in element for element in values)
        ]
        if not candidates:
            raise Unfit
        return self.random.choice(candidates)

    def all_members(self) -> Iterator[Member]:
        """Yield all members of the body, including tagged ones, whether or not they have values."""
        pending = [self.body]
        while pending:
            struct = pending.pop()
            for member in (*struct.members, *struct.tagged):
                yield member
                if member.inner:
                    pending.append(member.inner)


class Unfit(Exception):
    """The breakage does not apply to the frame."""


def _structs(struct: Struct, values: list[Values]) -> Iterator[tuple[Struct, list[Values]]]:
    if values:
        yield struct, values
    for member in (*struct.members, *struct.tagged):
        if member.inner:
            inner_values = [element[member.name] for element in values if element.get(member.name) is not None]
            yield from _structs(
                member.inner, [value for array in inner_values for value in array] if member.array else inner_values
            )


def _lengths(member: Member, length_kind: str) -> Iterator[str]:
    """Yield the length attributes of a member that `length_kind` selects: of strings, arrays, bytes or all three."""
    if member.array and member.length and length_kind in ("arrays", "all"):
        yield "length"
    attribute = "element_length" if member.array else "length"
    kind = {"string": "strings"}.get(member.kind, "bytes")
    if (
        getattr(member, attribute)
        and not (member.inner and not member.array)
        and member.kind != "struct"
        and length_kind in (kind, "all")
    ):
        yield attribute


def _set_lengths(frame: Frame, length_kind: str, change: Callable[[Member, str], str | None]) -> None:
    is_changed = False
    for member in frame.all_members():
        for attribute in list(_lengths(member, length_kind)):
            new_length = change(member, attribute)
            if new_length is not None and new_length != getattr(member, attribute):
                setattr(member, attribute, new_length)
                is_changed = True
    if not is_changed:
        raise Unfit


def _other_encoding(member: Member, attribute: str) -> str:
    if getattr(member, attribute) == "c":
        return "i16" if member.kind == "string" and not (member.array and attribute == "length") else "i32"
    return "c"


def other_encoding(length_kind: str) -> Callable[[Frame], None]:
    return lambda frame: _set_lengths(frame, length_kind, _other_encoding)


def other_width(length_kind: str) -> Callable[[Frame], None]:
    """Return a breakage that writes fixed lengths in the other width."""

    def change(member: Member, attribute: str) -> str | None:
        return {"i16": "i32", "i32": "i16"}.get(getattr(member, attribute))

    return lambda frame: _set_lengths(frame, length_kind, change)


def off_by_one(length_kind: str, delta: int) -> Callable[[Frame], None]:
    def change(member: Member, attribute: str) -> str | None:
        return f"c{delta:+d}" if getattr(member, attribute) == "c" else None

    return lambda frame: _set_lengths(frame, length_kind, change)


def in_one_member(change: Callable[[Frame, Member, str], str | None]) -> Callable[[Frame], None]:
    def apply(frame: Frame) -> None:
        _, member, _ = frame.pick(lambda member: any(_lengths(member, "all")), tagged=False)
        attribute = frame.random.choice(list(_lengths(member, "all")))
        new_length = change(frame, member, attribute)
        if new_length is None or new_length == getattr(member, attribute):
            raise Unfit
        setattr(member, attribute, new_length)

    return apply


def flexibility(frame: Frame) -> None:
    flexible = bool(frame.body.buffers)
    for member in frame.all_members():
        for attribute in list(_lengths(member, "all")):
            if (getattr(member, attribute) == "c") == flexible:
                setattr(member, attribute, _other_encoding(member, attribute))
    for struct in _all_structs(frame.body):
        struct.buffers = 0 if flexible else 1
        if flexible:
            struct.tagged = []


def _all_structs(struct: Struct) -> Iterator[Struct]:
    yield struct
    for member in (*struct.members, *struct.tagged):
        if member.inner:
            yield from _all_structs(member.inner)


def move_field(frame: Frame) -> None:
    struct, member, _ = frame.pick(lambda member: member.name != "throttle_time_ms")
    _move_member(frame, struct, member)


def move_throttle(frame: Frame) -> None:
    struct, member, _ = frame.pick(lambda member: member.name == "throttle_time_ms")
    _move_member(frame, struct, member)


def _move_member(frame: Frame, struct: Struct, member: Member) -> None:
    position = struct.members.index(member)
    new_positions = [new_position for new_position in range(len(struct.members)) if new_position != position]
    if not new_positions:
        raise Unfit
    struct.members.insert(frame.random.choice(new_positions), struct.members.pop(position))


def drop_throttle(frame: Frame) -> None:
    struct, member, _ = frame.pick(lambda member: member.name == "throttle_time_ms")
    struct.members.remove(member)


def drop_field(frame: Frame) -> None:
    struct, member, _ = frame.pick(lambda member: member.name != "throttle_time_ms")
    if len(struct.members) == 1 and not struct.buffers:
        raise Unfit
    struct.members.remove(member)


def duplicate_field(frame: Frame) -> None:
    struct, member, _ = frame.pick(lambda member: True)
    struct.members.insert(frame.random.choice((struct.members.index(member) + 1, len(struct.members))), member)


def duplicate_opaque_field(frame: Frame) -> None:
    struct, member, values = frame.pick(lambda member: member.kind in ("bytes", "records", "uuid"))
    if not any(element.get(member.name) for element in values):
        raise Unfit
    struct.members.insert(struct.members.index(member) + 1, member)


def add_field_of_version(frame: Frame) -> None:
    """Add a field that exists only in other versions, at its position there."""
    other_versions = [version for version in versions(frame.name) if version != frame.version]
    frame.random.shuffle(other_versions)
    for version in other_versions:
        struct_pairs = [
            struct_pair
            for struct_pair in _matching_structs(frame.body, message(frame.name, version), [frame.values["body"]])
            if struct_pair[3]
        ]
        if not struct_pairs:
            continue
        struct, other_struct, values, _ = frame.random.choice(struct_pairs)
        names = [member.name for member in struct.members]
        index, new_member = frame.random.choice(
            [(position, member) for position, member in enumerate(other_struct.members) if member.name not in names]
        )
        if new_member.inner or new_member.array:
            continue
        if frame.body.buffers and new_member.length:
            new_member.length = "c"
        elif new_member.length == "c":
            new_member.length = "i16" if new_member.kind == "string" else "i32"
        insert_position = sum(member.name in names for member in other_struct.members[:index])
        struct.members.insert(insert_position, new_member)
        source = Source(frame.random)
        for element in values:
            element[new_member.name] = source.member(new_member)
        return
    raise Unfit


def _matching_structs(
    struct: Struct, other_struct: Struct, values: list[Values]
) -> Iterator[tuple[Struct, Struct, list[Values], bool]]:
    if not values:
        return
    names = {field.name for field in (*struct.members, *struct.tagged)}
    yield struct, other_struct, values, any(member.name not in names for member in other_struct.members)
    members = {member.name: member for member in struct.members}
    for member in other_struct.members:
        counterpart = members.get(member.name)
        if counterpart and counterpart.inner and member.inner and counterpart.array == member.array:
            inner_values = [element[member.name] for element in values if element.get(member.name) is not None]
            yield from _matching_structs(
                counterpart.inner,
                member.inner,
                [e for array in inner_values for e in array] if member.array else inner_values,
            )


def other_version(frame: Frame) -> None:
    other_versions = [version for version in versions(frame.name) if version != frame.version]
    if not other_versions:
        raise Unfit
    nearest = min(other_versions, key=lambda version: abs(version - frame.version))
    version = frame.random.choice((nearest, frame.random.choice(other_versions)))
    frame.body = message(frame.name, version)
    Source(frame.random).complete(frame.body, frame.values["body"])


def error_only(frame: Frame) -> None:
    if not frame.name.endswith("Response"):
        raise Unfit
    frame.body = Struct([Member("error_code", "int16")])
    frame.values["body"].setdefault("error_code", frame.random.choice((3, 15, 16, 35, 41, 58)))


def error_only_old_header(frame: Frame) -> None:
    if frame.header_version != 1:
        raise Unfit
    error_only(frame)
    frame.header = message("ResponseHeader", 0)


def change_header_version(frame: Frame) -> None:
    name = "RequestHeader" if frame.name.endswith("Request") else "ResponseHeader"
    other_versions = [version for version in versions(name) if version != frame.header_version]
    frame.header = message(name, frame.random.choice(other_versions))


def change_int_width(frame: Frame) -> None:
    _, changed, _ = frame.pick(lambda member: member.kind in _INTEGERS and not member.array)
    width_index = _INTEGERS.index(changed.kind)
    changed.kind = frame.random.choice(
        [_INTEGERS[index] for index in (width_index - 1, width_index + 1) if 0 <= index < 4]
    )


def write_null(frame: Frame) -> None:
    _, nulled, _ = frame.pick(
        lambda member: bool(member.length) and not member.nullable and (member.array or not member.inner)
    )
    nulled.as_null = True


def drop_tag_buffer(frame: Frame) -> None:
    structs = [struct for struct, _ in frame.structs() if struct.buffers and struct.members]
    if not structs:
        raise Unfit
    struct = frame.random.choice(structs)
    struct.buffers, struct.tagged = 0, []


def add_tag_buffer(frame: Frame) -> None:
    frame.random.choice([struct for struct, _ in frame.structs()]).buffers += 1


def change_tag_size(frame: Frame) -> None:
    """Make the size of a tagged field wrong by some bytes; add a field if the frame has none."""
    tagged_members = [(struct, field) for struct, values in frame.structs() for field in struct.tagged
             if any(field.name in element for element in values)]  # fmt: skip
    if not tagged_members:
        possible_members = [(struct, field, values) for struct, values in frame.structs() for field in struct.tagged]
        if not possible_members:
            raise Unfit
        struct, new_field, values = frame.random.choice(possible_members)
        source = Source(frame.random)
        for element in values:
            element[new_field.name] = source.member(new_field)
        frame.values["changed"] = True
        tagged_members = [(struct, new_field)]
    frame.random.choice(tagged_members)[1].size_delta = frame.random.choice((-1, 1, 1, 2, 4))


def duplicate_prefix(prefix_name: str) -> Callable[[Frame], None]:
    def apply(frame: Frame) -> None:
        if not frame.name.endswith("Response"):
            raise Unfit
        frame.prefix = prefix_name

    return apply


def drop_in_one_element(frame: Frame) -> None:
    """Omit a field in only one element of an array of the body."""
    members = [
        array_member
        for array_member in frame.body.members
        if array_member.array
        and array_member.inner
        and len(array_member.inner.members) > 1
        and len(frame.values["body"].get(array_member.name) or ()) > 1
    ]
    if not members:
        raise Unfit
    array_member = frame.random.choice(members)
    assert array_member.inner is not None
    array_member.deviating_index, array_member.deviating_struct = (
        frame.random.randrange(len(frame.values["body"][array_member.name])),
        deepcopy(array_member.inner),
    )
    array_member.deviating_struct.members.pop(frame.random.randrange(len(array_member.deviating_struct.members)))


FAMILIES: dict[str, list[Callable[[Frame], None]]] = {
    "length width": [
        in_one_member(lambda _, member, attribute: {"i16": "i32", "i32": "i16"}.get(getattr(member, attribute))),
        other_width("strings"),
        other_width("arrays"),
        other_width("bytes"),
    ],
    "one length in the other encoding": [
        in_one_member(lambda _, member, attribute: _other_encoding(member, attribute))
    ],
    "only strings or only arrays in the other encoding": [other_encoding("strings"), other_encoding("arrays")],
    "all lengths in the other encoding": [other_encoding("all")],
    "the whole body in the other encoding": [flexibility],
    "compact length off by one": [
        in_one_member(
            lambda frame, member, attribute: (
                f"c{frame.random.choice((-1, 1)):+d}" if getattr(member, attribute) == "c" else None
            )
        ),
        off_by_one("strings", -1),
        off_by_one("arrays", -1),
        off_by_one("all", -1),
        off_by_one("strings", 1),
        off_by_one("arrays", 1),
        off_by_one("all", 1),
    ],
    "null in a non-nullable field": [write_null],
    "tag size": [change_tag_size],
    "tag buffer missing": [drop_tag_buffer],
    "tag buffer extra": [add_tag_buffer],
    "field moved": [move_field],
    "throttle_time_ms moved": [move_throttle],
    "throttle_time_ms missing": [drop_throttle],
    "field missing": [drop_field],
    "field duplicated": [duplicate_field],
    "opaque field duplicated": [duplicate_opaque_field],
    "field of another version": [add_field_of_version],
    "field missing in one element": [drop_in_one_element],
    "body of another version": [other_version],
    "error code only": [error_only],
    "error code only, older header": [error_only_old_header],
    "header version": [change_header_version],
    "integer width": [change_int_width],
    "prefix written twice": [duplicate_prefix("size"), duplicate_prefix("correlation_id")],
}
