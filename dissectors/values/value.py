"""A decoded key, value or header of a record, and what is known beforehand: its context and its schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    for them: the full name of an Avro type, the path of a ``.proto`` file, the URI of a JSON Schema.
    """

    type: str
    text: str
    subject: str | None = None
    references: Mapping[str, Schema] = field(default_factory=lambda: MappingProxyType({}))


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
        """The last header of this name; None if there is none, or if it is null."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


class ValueProblem(NamedTuple):
    """Why a value does not decode, or not completely. The text has no part of the value.

    `offset` counts from the first byte of the key or value, with its envelope; None if it is unknown.
    """

    text: str
    offset: int | None = None


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
