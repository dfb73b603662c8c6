"""Field and Layout: one message at one version, in wire order."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dissectors import schemas
from dissectors.schemas import VersionRange

#: Size in bytes of each fixed-width type.
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

#: The `struct` format code of each fixed-width type; a uuid is read as 16 bytes.
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
    """One field in a layout.

    `type` is a primitive (`WIDTHS`), ``string``, ``bytes``, ``records`` or ``struct``; with `array` it is the type of
    the elements. `length` is the encoding of an array's count or a value's size: ``int16``, ``int32`` or ``uvarint``
    (compact: the length plus one; 0 is null). For a nullable struct it is the encoding of the presence marker:
    ``int8`` (negative is null) or, in a tagged field, ``uvarint``. `element_length` is the same for the elements of an
    array. `tag` is set for fields in the tag buffer. `entity` is Kafka's entityType (``topicName``).

    Only edits set the rest: the lengths ``uvarint-1`` (the length itself) and ``uvarint+1`` (the length plus two);
    `writes`, which is ``null`` to write null for every value, or ``empty`` to write an empty value for null; and
    `deviating_element`, the index and layout of the one element that is written in a different layout.
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
    deviating_element: tuple[int, Layout] | None = None
    #: The cache of `cached_on_owner`.
    derived: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """A message, or a struct inside one: its fields in wire order, then the tag buffer if `flexible`.

    Layouts are immutable: an edit returns a new one. `tag_fault` is an error that an edit puts into the tag buffer:
    ``order`` (tags in descending order), ``twice`` (a second, empty buffer), ``size N D`` (the size of
    tag N is wrong by D).
    """

    name: str
    fields: tuple[Field, ...]
    flexible: bool = False
    tagged: tuple[Field, ...] = ()
    tag_fault: str = ""
    #: The cache of `cached_on_owner`.
    derived: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def wrong_size(self) -> tuple[int, int] | None:
        """The tag whose size is wrong, and by how much; None if all sizes are correct."""
        fault, _, numbers = self.tag_fault.partition(" ")
        tag, _, delta = numbers.partition(" ")
        return (int(tag), int(delta)) if fault == "size" else None


OwnerT = TypeVar("OwnerT", Field, Layout)
ResultT = TypeVar("ResultT")


def cached_on_owner(compute: Callable[[OwnerT], ResultT]) -> Callable[[OwnerT], ResultT]:
    """Cache a function's result on the layout or field that it is called with.

    The result is freed together with its owner, even if it refers to the owner; `functools.cache` would keep both.
    """

    @functools.wraps(compute)
    def get_cached(owner: OwnerT) -> ResultT:
        try:
            cached: ResultT = owner.derived[compute]
        except KeyError:
            pass
        else:
            return cached
        result = owner.derived[compute] = compute(owner)
        return result

    return get_cached


def layout_of_element(field: Field, index: int) -> Layout:
    """Return the layout of one element of an array of structs."""
    assert field.struct is not None
    if field.deviating_element is not None and field.deviating_element[0] == index:
        return field.deviating_element[1]
    return field.struct


def snake_case(name: str) -> str:
    """Convert Kafka's CamelCase name to snake_case: ``ThrottleTimeMs`` -> ``throttle_time_ms``."""
    return _WORD.sub("_", name).lower()


#: The layouts of messages that Kafka implements in code, without a definition, by name and version.
_CODE_DEFINED: dict[str, Mapping[int, Layout]] = {}


def define(name: str, layouts: Mapping[int, Layout]) -> None:
    """Add a message that is not in the schemas, with its layout at each version."""
    _CODE_DEFINED[name] = layouts


def versions(name: str) -> tuple[int, ...]:
    """Return all versions of a message in ascending order.

    Raises:
        KeyError: The message is unknown.
    """
    layouts = _CODE_DEFINED.get(name)
    return tuple(layouts) if layouts is not None else tuple(VersionRange.parse(schemas.message(name)["versions"]))


@functools.cache
def layout(name: str, version: int, component: str | None = None) -> Layout:
    """Return the layout of a message by its name in Kafka's definitions, e.g. ``FetchRequest``.

    Raises:
        KeyError: The message is unknown or does not have that version.
    """
    if name in _CODE_DEFINED:
        if version not in _CODE_DEFINED[name]:
            raise KeyError(f"{name} has no version {version}")
        return _CODE_DEFINED[name][version]
    message = schemas.message(name, component)
    if version not in VersionRange.parse(message["versions"]):
        raise KeyError(f"{name} has no version {version}")
    return resolve(message, version)


def resolve(message: Mapping[str, Any], version: int) -> Layout:
    """Return the layout of one version of a message definition.

    Source: Kafka's message definitions (clients/src/main/resources/common/message/README.md), KIP-482.
    """
    flexible = version in VersionRange.parse(message["flexible"])
    return _build_struct((message["name"],), message["fields"], version, flexible)


#: Interned by path and content: versions of a message share equal fields and structs, and the results cached on them.
_fields: dict[tuple[Any, ...], Field] = {}
_layouts: dict[tuple[Any, ...], Layout] = {}


def _build_struct(path: tuple[str, ...], definitions: list[Mapping[str, Any]], version: int, flexible: bool) -> Layout:
    untagged: list[Field] = []
    tagged: list[Field] = []
    for definition in definitions:
        if version not in VersionRange.parse(definition["versions"]):
            continue
        field = _build_field(path, definition, version, flexible)
        (untagged if field.tag is None else tagged).append(field)
    tagged.sort(key=lambda tagged_field: tagged_field.tag or 0)
    struct = Layout(path[-1], tuple(untagged), flexible, tuple(tagged))
    return _layouts.setdefault((path, flexible, *map(id, untagged), None, *map(id, tagged)), struct)


def _build_field(path: tuple[str, ...], definition: Mapping[str, Any], version: int, flexible: bool) -> Field:
    type_name: str = definition["type"]
    array = type_name.startswith("[]")
    type_name = type_name.removeprefix("[]")
    field_path = (*path, definition["name"], type_name)
    struct = _build_struct(field_path, definition["fields"], version, flexible) if "fields" in definition else None
    compact = flexible and definition.get("flexibleVersions") != "none"
    tag = definition["tag"] if version in VersionRange.parse(definition.get("taggedVersions", "none")) else None
    nullable = version in VersionRange.parse(definition.get("nullableVersions", "none"))
    encoding = _length_encoding("struct" if struct else type_name, compact)
    if array:
        length: str | None = "uvarint" if compact else "int32"
    elif struct:
        length = ("int8" if tag is None else "uvarint") if nullable else None
    else:
        length = encoding
    field = Field(
        name=snake_case(definition["name"]),
        type="struct" if struct else type_name,
        array=array,
        nullable=nullable,
        length=length,
        element_length=encoding if array else None,
        struct=struct,
        tag=tag,
        default=_default_value(definition, array, struct, nullable),
        entity=definition.get("entityType"),
    )
    return _fields.setdefault(
        (field.name, field.type, array, nullable, length, encoding, id(struct), tag, repr(field.default), field.entity),
        field,
    )


def _length_encoding(kind: str, compact: bool) -> str | None:
    if kind not in {"string", "bytes", "records"}:
        return None
    if compact:
        return "uvarint"
    return "int16" if kind == "string" else "int32"


def _default_value(definition: Mapping[str, Any], array: bool, struct: Layout | None, nullable: bool) -> Any:
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
