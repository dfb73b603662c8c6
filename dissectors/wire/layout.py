"""Field and Layout: one message at one version, in wire order."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dissectors import schemas
from dissectors.schemas import VersionRange

#: Bytes of each fixed-width type on the wire.
WIDTHS = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}

#: The code that `struct` has for each; a uuid is its bytes.
CODES = {
    "bool": "B",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Field:
    """One field as it stands on the wire.

    `type` is a primitive (`WIDTHS`), ``string``, ``bytes``, ``records`` or ``struct``; with `array` it is the type of
    the elements. `length` is how the count of an array or the size of a value is written: ``int16``, ``int32`` or
    ``uvarint`` (compact: one more than the length, 0 is null); for a nullable struct it is the mark of presence,
    ``int8`` (negative is null) or, in a tagged field, ``uvarint``. `element_length` is the same for the elements of an
    array. `tag` is set for fields in the tag buffer. `entity` is Kafka's entityType (``topicName``).

    Edits make what no schema has: the lengths ``uvarint-1`` (the length itself) and ``uvarint+1`` (two more), in
    `writes` what is written whatever the value: ``null``, or ``empty`` for null, and in `exception` the index of the
    one element that is written in another layout, with that.
    """

    name: str
    type: str
    array: bool = False
    nullable: bool = False
    length: str | None = None
    element_length: str | None = None
    struct: Layout | None = None
    tag: int | None = None
    default: Any = None
    entity: str | None = None
    writes: str | None = None
    exception: tuple[int, Layout] | None = None
    #: For `once` alone.
    derived: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """A message, or a struct in one: its fields in wire order, then the tag buffer if `flexible`.

    Layouts are values: an edit makes another one, and both are decoded and encoded in the same way. `tag_fault` is how
    an edit has the tag buffer written: in descending ``order``, ``twice``, or ``size 1`` with that of tag 1 wrong.
    """

    name: str
    fields: tuple[Field, ...]
    flexible: bool = False
    tagged: tuple[Field, ...] = ()
    tag_fault: str = ""
    #: For `once` alone.
    derived: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, compare=False, repr=False)


OwnerT = TypeVar("OwnerT", Field, Layout)
ResultT = TypeVar("ResultT")


def once(compute: Callable[[OwnerT], ResultT]) -> Callable[[OwnerT], ResultT]:
    """Make a function compute its result once for each layout or field.

    The layout or field keeps the result, so that both are freed together, also where the result refers to its owner.
    """

    @functools.wraps(compute)
    def get(owner: OwnerT) -> ResultT:
        try:
            known: ResultT = owner.derived[compute]
        except KeyError:
            pass
        else:
            return known
        made = owner.derived[compute] = compute(owner)
        return made

    return get


def layout_of_element(field: Field, index: int) -> Layout:
    """The layout of the struct at an index of an array of structs."""
    assert field.struct is not None
    return field.exception[1] if field.exception is not None and field.exception[0] == index else field.struct


def snake_case(name: str) -> str:
    """Kafka's CamelCase as kproxy writes it: ``ThrottleTimeMs`` -> ``throttle_time_ms``."""
    return _WORD.sub("_", name).lower()


@functools.cache
def layout(name: str, version: int, component: str | None = None) -> Layout:
    """The layout of a message by its name in Kafka's definitions, e.g. ``FetchRequest``.

    Raises:
        KeyError: No such message, or not at that version.
    """
    message = schemas.message(name, component)
    if version not in VersionRange.parse(message["versions"]):
        raise KeyError(f"{name} has no version {version}")
    return resolve(message, version)


def resolve(message: Mapping[str, Any], version: int) -> Layout:
    """The layout that a message definition gives one of its versions.

    Source: Kafka's message definitions (clients/src/main/resources/common/message/README.md), KIP-482.
    """
    flexible = version in VersionRange.parse(message["flexible"])
    return _struct((message["name"],), message["fields"], version, flexible)


#: What is alike in several versions of a message is one object, with all that is made of it, by what it is and where.
_fields: dict[tuple[Any, ...], Field] = {}
_layouts: dict[tuple[Any, ...], Layout] = {}


def _struct(path: tuple[str, ...], definitions: list[Mapping[str, Any]], version: int, flexible: bool) -> Layout:
    plain: list[Field] = []
    tagged: list[Field] = []
    for definition in definitions:
        if version not in VersionRange.parse(definition["versions"]):
            continue
        made = _field(path, definition, version, flexible)
        (plain if made.tag is None else tagged).append(made)
    tagged.sort(key=lambda made: made.tag or 0)
    struct = Layout(path[-1], tuple(plain), flexible, tuple(tagged))
    return _layouts.setdefault((path, flexible, *map(id, plain), None, *map(id, tagged)), struct)


def _field(path: tuple[str, ...], definition: Mapping[str, Any], version: int, flexible: bool) -> Field:
    kind: str = definition["type"]
    array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    inner = (*path, definition["name"], kind)
    struct = _struct(inner, definition["fields"], version, flexible) if "fields" in definition else None
    compact = flexible and definition.get("flexibleVersions") != "none"
    tag = definition["tag"] if version in VersionRange.parse(definition.get("taggedVersions", "none")) else None
    nullable = version in VersionRange.parse(definition.get("nullableVersions", "none"))
    one = _length("struct" if struct else kind, compact)
    if array:
        length: str | None = "uvarint" if compact else "int32"
    elif struct:
        length = ("int8" if tag is None else "uvarint") if nullable else None
    else:
        length = one
    made = Field(
        name=snake_case(definition["name"]),
        type="struct" if struct else kind,
        array=array,
        nullable=nullable,
        length=length,
        element_length=one if array else None,
        struct=struct,
        tag=tag,
        default=_default(definition, array, struct, nullable),
        entity=definition.get("entityType"),
    )
    return _fields.setdefault(
        (made.name, made.type, array, nullable, length, one, id(struct), tag, repr(made.default), made.entity), made
    )


def _length(kind: str, compact: bool) -> str | None:
    if kind not in {"string", "bytes", "records"}:
        return None
    if compact:
        return "uvarint"
    return "int16" if kind == "string" else "int32"


def _default(definition: Mapping[str, Any], array: bool, struct: Layout | None, nullable: bool) -> Any:
    if "default" in definition:
        return definition["default"]
    if array:
        return []
    if struct is not None:
        return {}
    kind = definition["type"]
    if kind == "records":
        return None if nullable else b""
    return {"string": "", "bytes": b"", "bool": False, "uuid": NULL_UUID, "float64": 0.0}.get(kind, 0)


#: The all-zero uuid as Kafka prints it.
NULL_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
