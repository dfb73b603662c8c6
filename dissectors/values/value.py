"""A decoded key, value or header of a record, and what is needed to decode it: its context and its schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

#: dict (text keys), list, str, int, float, bool, bytes or None.
Tree: TypeAlias = Any


class SchemaKey(NamedTuple):
    """Identifies a schema.

    `form` is ``id`` (Confluent's, an int), ``guid`` (Confluent's), ``global_id`` or ``content_id`` (Apicurio's, ints),
    ``glue`` (the UUID of a version in AWS Glue), ``azure`` (32 hex digits) or ``subject``.
    """

    form: str
    value: int | str

    def __str__(self) -> str:
        return f"{self.form.replace('_', ' ')} {self.value}"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A schema as text.

    `type` is ``AVRO``, ``PROTOBUF`` or ``JSON``. `references` are the schemas that it uses, by the name that it uses
    for them: the full name of an Avro type, the path of a ``.proto`` file, the URI of a JSON Schema. `subjects` are all
    subjects with this schema, if the source knows them; `subject` is one of them.
    """

    type: str
    text: str
    subject: str | None = None
    references: Mapping[str, Schema] = field(default_factory=lambda: MappingProxyType({}))
    subjects: tuple[str, ...] = ()


class NotListed(str):
    """A sentence that says why a schema is missing: the source has others with such keys, but may not have all."""

    __slots__ = ()


class NotRegistered(str):
    """A sentence that says why a schema is missing: the source has all schemas, and this one is not among them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """Limits on decoding a value: bytes, levels of nesting, and the total of scalars and containers."""

    size: int = 1 << 20
    depth: int = 64
    nodes: int = 10_000


DEFAULT_LIMITS = ValueLimits()


@dataclass(frozen=True, slots=True)
class ValueContext:
    """The context of a key or value. `schemas` has a schema, or a sentence that says why there is none."""

    topic: str | None = None
    is_key: bool = False
    headers: tuple[tuple[str, bytes | None], ...] = ()
    schemas: Mapping[SchemaKey, Schema | str] = field(default_factory=lambda: MappingProxyType({}))
    limits: ValueLimits = DEFAULT_LIMITS

    @property
    def part(self) -> str:
        """``key`` or ``value``."""
        return "key" if self.is_key else "value"

    def header(self, name: str) -> bytes | None:
        """Return the last header with this name; None if there is none, or if it is null."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


class ProblemKind(StrEnum):
    """The kinds of problems with a value that rules distinguish.

    NOT_REGISTERED: nobody registered the schema. NOT_LISTED: a directory has other schemas, but not this one.
    NO_SCHEMA: the schema is not available. BAD_SCHEMA: the schema cannot be used. DOES_NOT_FIT: the bytes do not fit
    the schema. LEFTOVER: bytes are left after the value. MESSAGE_INDEX: the indexes lead to no Protobuf message.
    UNKNOWN_FIELDS: the message has fields that its schema does not have. VIOLATION: the value violates its JSON Schema.
    """

    NOT_REGISTERED = "not_registered"
    NOT_LISTED = "not_listed"
    NO_SCHEMA = "no_schema"
    BAD_SCHEMA = "bad_schema"
    DOES_NOT_FIT = "does_not_fit"
    LEFTOVER = "leftover"
    MESSAGE_INDEX = "message_index"
    UNKNOWN_FIELDS = "unknown_fields"
    VIOLATION = "violation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """Why a value does not decode completely. The text quotes no part of an Avro or Protobuf value.

    `offset` counts from the first byte of the key or value, including its envelope; None if it is unknown.
    """

    text: str
    offset: int | None = None
    kind: ProblemKind = field(default=ProblemKind.OTHER, compare=False)


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A decoded key, value or header.

    Attributes:
        format: ``avro``, ``protobuf``, ``json``, ``text``, ``bytes``, ...; docs/payloads.md lists them.
        data: The value; if there is a problem, the part that could be read before it.
        is_guess: Whether the format was inferred from the bytes alone.
        schema: The schema's key, if the bytes or headers name one.
        subject: The schema's subject, if known.
        type: The name of the record or message in the schema.
        problem: Why `data` is incomplete or doubtful.
        reencoding: ``equal`` if encoding `data` again gives the same bytes, otherwise the reason. None if not checked.
        is_cut: Whether parts of `data` are left out because of the limits.
        inner: The keys and values inside, if a program wrapped them; `schema` and `problem` are those of one of them.
        steps: The work of validating and copying the value, in steps (`dissectors.records.allowance`).
    """

    format: str
    data: Tree
    is_guess: bool = False
    schema: SchemaKey | None = None
    subject: str | None = None
    type: str | None = None
    problem: ValueProblem | None = None
    reencoding: str | None = None
    is_cut: bool = False
    inner: tuple[InnerValue, ...] = ()
    steps: int = field(default=0, repr=False, compare=False)

    def with_schema(self, part: str) -> DecodedValue:
        """Return the key or value inside that has the schema, which rules check; this value if there is none."""
        return next(
            (payload.value for payload in self.inner if payload.part == part and payload.value.schema is not None), self
        )


class InnerValue(NamedTuple):
    """A key or value inside another one: its member in the outer data, and its part, ``key`` or ``value``."""

    name: str
    part: str
    value: DecodedValue


class WrittenRecord(NamedTuple):
    """A record as it was written, and its location.

    Attributes:
        topic: None if its name is unknown.
        partition: None if the record belongs to no partition.
        path: The path to the record in the body, in the notation for users.
        offset: In a produced batch, relative to its base offset.
        magic: The record format.
        timestamp: In ms, -1 for none.
        is_append_time: Whether the broker chose the timestamp.
        key: None for null, as for the value.
        headers: In wire order.
        masked: Whether the names of fields and headers must not be shown.
    """

    topic: str | None
    partition: int | None
    path: str
    offset: int
    magic: int
    timestamp: int
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    masked: bool = False


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A decoded key or value, and its location.

    Attributes:
        topic: None if its name is unknown.
        part: ``key`` or ``value``.
        path: The path to the field in the body, in the notation for users.
        data: Its bytes; empty for null, which occurs here only as the value of a record without a key.
        schema: The schema by which it was decoded.
        record: Its record; None if kproxy has decoded part of it in another way.
    """

    topic: str | None
    part: str
    path: str
    data: bytes = field(repr=False)
    value: DecodedValue
    schema: Schema | None = None
    record: WrittenRecord | None = field(default=None, repr=False)
