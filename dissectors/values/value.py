"""A decoded key, value or header of a record, and what is known beforehand: its context and its schemas."""

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
    that have it, if the source knows them; `subject` is one of them.
    """

    type: str
    text: str
    subject: str | None = None
    references: Mapping[str, Schema] = field(default_factory=lambda: MappingProxyType({}))
    subjects: tuple[str, ...] = ()


class NotListed(str):
    """Why there is no schema with a key, as a sentence: the source has others by such keys, but may not have all."""

    __slots__ = ()


class NotRegistered(str):
    """Why there is no schema with a key, as a sentence: the source has all schemas, and this one is not among them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """How much of a value is decoded: bytes, levels of nesting, and scalars and containers in total."""

    size: int = 1 << 20
    depth: int = 64
    nodes: int = 10_000


DEFAULT_LIMITS = ValueLimits()


@dataclass(frozen=True, slots=True)
class ValueContext:
    """The surroundings of a key or value. `schemas` has a schema or, as a sentence, why there is none."""

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
        """Return the last header of this name; None if there is none, or if it is null."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


class ProblemKind(StrEnum):
    """What is wrong with a value, as rules distinguish it.

    NOT_REGISTERED: nobody registered the schema. NOT_LISTED: a directory has other schemas, but not this one.
    NO_SCHEMA: it is not available. BAD_SCHEMA: it cannot be used.
    DOES_NOT_FIT: the bytes do not fit it. LEFTOVER: bytes are left after the value. MESSAGE_INDEX: the indexes lead to
    no Protobuf message. UNKNOWN_FIELDS: the message has fields that its schema does not have. VIOLATION: the value
    violates its JSON Schema.
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
    """Why a value does not decode, or not completely. The text has no part of an Avro or Protobuf value.

    `offset` counts from the first byte of the key or value, with its envelope; None if it is unknown.
    """

    text: str
    offset: int | None = None
    kind: ProblemKind = field(default=ProblemKind.OTHER, compare=False)


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A decoded key, value or header.

    Attributes:
        format: ``avro``, ``protobuf``, ``json``, ``text``, ``bytes``, ...; docs/payloads.md lists them.
        data: The value; with a problem, what could be read before it.
        is_guess: Whether the format was inferred from the bytes alone.
        schema: The schema's key, if the bytes or headers name one.
        subject: The schema's subject, if known.
        type: The name of the record or message in the schema.
        problem: Why `data` is incomplete or doubtful.
        reencoding: ``equal`` if encoding `data` again gives the same bytes, else why not. None if not checked.
        is_cut: Whether parts of `data` are left out because of the limits.
        inner: The keys and values inside, if a program wrapped them; `schema` and `problem` are those of one of them.
        steps: The work of validating it and copying it, in values (`dissectors.records.allowance`).
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
        """Return the key or value inside whose schema this one has, as rules check it; itself if there is none."""
        return next(
            (payload.value for payload in self.inner if payload.part == part and payload.value.schema is not None), self
        )


class InnerValue(NamedTuple):
    """A key or value inside another one: its member in the data of the other, and its part, ``key`` or ``value``."""

    name: str
    part: str
    value: DecodedValue


class WrittenRecord(NamedTuple):
    """A record as its bytes have it, and its place.

    Attributes:
        topic: None if its name is unknown.
        partition: None if it is in no partition.
        path: The record in the body, as users write it.
        offset: In a produced batch, relative to its base offset.
        magic: The record format.
        timestamp: In ms, -1 for none.
        is_append_time: Whether the broker chose the timestamp.
        key: None for null; so is the value.
        headers: In their order.
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
    """A decoded key or value and its place.

    Attributes:
        topic: None if its name is unknown.
        part: ``key`` or ``value``.
        path: The field in the body, as users write it.
        data: Its bytes; empty for null, which is here only as the value of a record without a key.
        schema: The schema by which it was decoded.
        record: Its record; None if kproxy has decoded a part of it otherwise.
    """

    topic: str | None
    part: str
    path: str
    data: bytes = field(repr=False)
    value: DecodedValue
    schema: Schema | None = None
    record: WrittenRecord | None = field(default=None, repr=False)
