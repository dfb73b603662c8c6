"""The ways to break a frame, by family. Each changes fresh trees of header and body, or does not apply."""

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
    """What is written: the trees, the values, the name of the body's message and its version."""

    name: str
    version: int
    header_version: int
    header: Struct
    body: Struct
    values: Values
    random: Random
    prefix: str = ""

    def structs(self) -> list[tuple[Struct, list[Values]]]:
        """The structs of the body that have values, with these."""
        return list(_structs(self.body, [self.values["body"]]))

    def pick(self, accept: Callable[[Member], bool], *, tagged: bool = False) -> tuple[Struct, Member, list[Values]]:
        """A member of a struct that has values."""
        found = [
            (struct, member, values)
            for struct, values in self.structs()
            for member in ((*struct.members, *struct.tagged) if tagged else struct.members)
            if accept(member) and any(member.name in element for element in values)
        ]
        if not found:
            raise Unfit
        return self.random.choice(found)

    def every(self) -> Iterator[Member]:
        """All members of the body, tagged ones included, whether they have values or not."""
        pending = [self.body]
        while pending:
            struct = pending.pop()
            for one in (*struct.members, *struct.tagged):
                yield one
                if one.inner:
                    pending.append(one.inner)


class Unfit(Exception):
    """The breakage does not apply to the frame."""


def _structs(struct: Struct, values: list[Values]) -> Iterator[tuple[Struct, list[Values]]]:
    if values:
        yield struct, values
    for member in (*struct.members, *struct.tagged):
        if member.inner:
            inside = [element[member.name] for element in values if element.get(member.name) is not None]
            yield from _structs(member.inner, [each for some in inside for each in some] if member.array else inside)


def _lengths(member: Member, what: str) -> Iterator[str]:
    """The attributes of a member that are lengths of strings, arrays, bytes or of all."""
    if member.array and member.length and what in ("arrays", "all"):
        yield "length"
    attribute = "element_length" if member.array else "length"
    kind = {"string": "strings"}.get(member.kind, "bytes")
    if (
        getattr(member, attribute)
        and not (member.inner and not member.array)
        and member.kind != "struct"
        and what in (kind, "all")
    ):
        yield attribute


def _set(frame: Frame, what: str, change: Callable[[Member, str], str | None]) -> None:
    done = False
    for one in frame.every():
        for attribute in list(_lengths(one, what)):
            made = change(one, attribute)
            if made is not None and made != getattr(one, attribute):
                setattr(one, attribute, made)
                done = True
    if not done:
        raise Unfit


def _other(member: Member, attribute: str) -> str:
    if getattr(member, attribute) == "c":
        return "i16" if member.kind == "string" and not (member.array and attribute == "length") else "i32"
    return "c"


def other_encoding(what: str) -> Callable[[Frame], None]:
    return lambda frame: _set(frame, what, _other)


def width(what: str) -> Callable[[Frame], None]:
    """Fixed lengths in the other width."""

    def change(member: Member, attribute: str) -> str | None:
        return {"i16": "i32", "i32": "i16"}.get(getattr(member, attribute))

    return lambda frame: _set(frame, what, change)


def off_by_one(what: str, delta: int) -> Callable[[Frame], None]:
    def change(member: Member, attribute: str) -> str | None:
        return f"c{delta:+d}" if getattr(member, attribute) == "c" else None

    return lambda frame: _set(frame, what, change)


def of_one(change: Callable[[Frame, Member, str], str | None]) -> Callable[[Frame], None]:
    def apply(frame: Frame) -> None:
        _, one, _ = frame.pick(lambda one: any(_lengths(one, "all")), tagged=False)
        attribute = frame.random.choice(list(_lengths(one, "all")))
        made = change(frame, one, attribute)
        if made is None or made == getattr(one, attribute):
            raise Unfit
        setattr(one, attribute, made)

    return apply


def flexibility(frame: Frame) -> None:
    flexible = bool(frame.body.buffers)
    for one in frame.every():
        for attribute in list(_lengths(one, "all")):
            if (getattr(one, attribute) == "c") == flexible:
                setattr(one, attribute, _other(one, attribute))
    for struct in _all_structs(frame.body):
        struct.buffers = 0 if flexible else 1
        if flexible:
            struct.tagged = []


def _all_structs(struct: Struct) -> Iterator[Struct]:
    yield struct
    for one in (*struct.members, *struct.tagged):
        if one.inner:
            yield from _all_structs(one.inner)


def moved(frame: Frame) -> None:
    struct, one, _ = frame.pick(lambda one: one.name != "throttle_time_ms")
    _move(frame, struct, one)


def throttle_moved(frame: Frame) -> None:
    struct, one, _ = frame.pick(lambda one: one.name == "throttle_time_ms")
    _move(frame, struct, one)


def _move(frame: Frame, struct: Struct, member: Member) -> None:
    at = struct.members.index(member)
    places = [place for place in range(len(struct.members)) if place != at]
    if not places:
        raise Unfit
    struct.members.insert(frame.random.choice(places), struct.members.pop(at))


def throttle_missing(frame: Frame) -> None:
    struct, one, _ = frame.pick(lambda one: one.name == "throttle_time_ms")
    struct.members.remove(one)


def missing(frame: Frame) -> None:
    struct, one, _ = frame.pick(lambda one: one.name != "throttle_time_ms")
    if len(struct.members) == 1 and not struct.buffers:
        raise Unfit
    struct.members.remove(one)


def duplicated(frame: Frame) -> None:
    struct, one, _ = frame.pick(lambda one: True)
    struct.members.insert(frame.random.choice((struct.members.index(one) + 1, len(struct.members))), one)


def opaque_duplicated(frame: Frame) -> None:
    struct, one, values = frame.pick(lambda one: one.kind in ("bytes", "records", "uuid"))
    if not any(element.get(one.name) for element in values):
        raise Unfit
    struct.members.insert(struct.members.index(one) + 1, one)


def from_version(frame: Frame) -> None:
    """One field that only other versions have, at its place there."""
    others = [version for version in versions(frame.name) if version != frame.version]
    frame.random.shuffle(others)
    for version in others:
        pairs = [pair for pair in _pairs(frame.body, message(frame.name, version), [frame.values["body"]]) if pair[3]]
        if not pairs:
            continue
        struct, other, values, _ = frame.random.choice(pairs)
        names = [member.name for member in struct.members]
        index, one = frame.random.choice(
            [(at, member) for at, member in enumerate(other.members) if member.name not in names]
        )
        if one.inner or one.array:
            continue
        if frame.body.buffers and one.length:
            one.length = "c"
        elif one.length == "c":
            one.length = "i16" if one.kind == "string" else "i32"
        place = sum(member.name in names for member in other.members[:index])
        struct.members.insert(place, one)
        source = Source(frame.random)
        for element in values:
            element[one.name] = source.member(one)
        return
    raise Unfit


def _pairs(struct: Struct, other: Struct, values: list[Values]) -> Iterator[tuple[Struct, Struct, list[Values], bool]]:
    if not values:
        return
    names = {one.name for one in (*struct.members, *struct.tagged)}
    yield struct, other, values, any(member.name not in names for member in other.members)
    mine = {member.name: member for member in struct.members}
    for member in other.members:
        own = mine.get(member.name)
        if own and own.inner and member.inner and own.array == member.array:
            inside = [element[member.name] for element in values if element.get(member.name) is not None]
            yield from _pairs(own.inner, member.inner, [e for some in inside for e in some] if member.array else inside)


def other_version(frame: Frame) -> None:
    others = [version for version in versions(frame.name) if version != frame.version]
    if not others:
        raise Unfit
    near = min(others, key=lambda version: abs(version - frame.version))
    version = frame.random.choice((near, frame.random.choice(others)))
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


def header(frame: Frame) -> None:
    name = "RequestHeader" if frame.name.endswith("Request") else "ResponseHeader"
    others = [version for version in versions(name) if version != frame.header_version]
    frame.header = message(name, frame.random.choice(others))


def int_width(frame: Frame) -> None:
    _, one, _ = frame.pick(lambda member: member.kind in _INTEGERS and not member.array)
    at = _INTEGERS.index(one.kind)
    one.kind = frame.random.choice([_INTEGERS[each] for each in (at - 1, at + 1) if 0 <= each < 4])


def null(frame: Frame) -> None:
    _, one, _ = frame.pick(
        lambda member: bool(member.length) and not member.nullable and (member.array or not member.inner)
    )
    one.as_null = True


def tag_buffer_missing(frame: Frame) -> None:
    found = [struct for struct, _ in frame.structs() if struct.buffers and struct.members]
    if not found:
        raise Unfit
    struct = frame.random.choice(found)
    struct.buffers, struct.tagged = 0, []


def tag_buffer_extra(frame: Frame) -> None:
    frame.random.choice([struct for struct, _ in frame.structs()]).buffers += 1


def tag_size(frame: Frame) -> None:
    """The size of a tagged field is wrong by some bytes; a field is added if the frame has none."""
    found = [(struct, field) for struct, values in frame.structs() for field in struct.tagged
             if any(field.name in element for element in values)]  # fmt: skip
    if not found:
        possible = [(struct, field, values) for struct, values in frame.structs() for field in struct.tagged]
        if not possible:
            raise Unfit
        struct, one, values = frame.random.choice(possible)
        source = Source(frame.random)
        for element in values:
            element[one.name] = source.member(one)
        frame.values["changed"] = True
        found = [(struct, one)]
    frame.random.choice(found)[1].size_delta = frame.random.choice((-1, 1, 1, 2, 4))


def prefix(what: str) -> Callable[[Frame], None]:
    def apply(frame: Frame) -> None:
        if not frame.name.endswith("Response"):
            raise Unfit
        frame.prefix = what

    return apply


def in_one_element(frame: Frame) -> None:
    """A field is missing in only one element of an array of the body."""
    members = [one for one in frame.body.members if one.array and one.inner and len(one.inner.members) > 1
             and len(frame.values["body"].get(one.name) or ()) > 1]  # fmt: skip
    if not members:
        raise Unfit
    one = frame.random.choice(members)
    assert one.inner is not None
    one.only, one.other = frame.random.randrange(len(frame.values["body"][one.name])), deepcopy(one.inner)
    one.other.members.pop(frame.random.randrange(len(one.other.members)))


FAMILIES: dict[str, list[Callable[[Frame], None]]] = {
    "length width": [
        of_one(lambda _, one, at: {"i16": "i32", "i32": "i16"}.get(getattr(one, at))),
        width("strings"), width("arrays"), width("bytes"),
    ],
    "one length in the other encoding": [of_one(lambda _, one, at: _other(one, at))],
    "only strings or only arrays in the other encoding": [other_encoding("strings"), other_encoding("arrays")],
    "all lengths in the other encoding": [other_encoding("all")],
    "the whole body in the other encoding": [flexibility],
    "compact length off by one": [
        of_one(lambda frame, one, at: f"c{frame.random.choice((-1, 1)):+d}" if getattr(one, at) == "c" else None),
        off_by_one("strings", -1), off_by_one("arrays", -1), off_by_one("all", -1),
        off_by_one("strings", 1), off_by_one("arrays", 1), off_by_one("all", 1),
    ],
    "null in a non-nullable field": [null],
    "tag size": [tag_size],
    "tag buffer missing": [tag_buffer_missing],
    "tag buffer extra": [tag_buffer_extra],
    "field moved": [moved],
    "throttle_time_ms moved": [throttle_moved],
    "throttle_time_ms missing": [throttle_missing],
    "field missing": [missing],
    "field duplicated": [duplicated],
    "opaque field duplicated": [opaque_duplicated],
    "field of another version": [from_version],
    "field missing in one element": [in_one_element],
    "body of another version": [other_version],
    "error code only": [error_only],
    "error code only, older header": [error_only_old_header],
    "header version": [header],
    "integer width": [int_width],
    "prefix written twice": [prefix("size"), prefix("correlation_id")],
}  # fmt: skip
