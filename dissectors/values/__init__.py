"""Keys, values and headers of records: their envelopes, formats and schemas.

`decode` is pure: the caller provides the schemas, and `schema_keys` names those that may be needed. A format with a
schema is a function decorated with `schema_format`, any other format one with `plain_format`, each in its own file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dissectors.values.bounds import bound_tree
from dissectors.values.envelope import Envelope, find_envelope, payload_of, schema_keys
from dissectors.values.errors import MissingPackage
from dissectors.values.internal_topics import internal_record
from dissectors.values.plain_formats import decode_plain
from dissectors.values.schema_formats import format_of
from dissectors.values.streams_topics import streams_record
from dissectors.values.value import (
    DEFAULT_LIMITS,
    DecodedPart,
    DecodedValue,
    NotListed,
    NotRegistered,
    ProblemKind,
    Schema,
    SchemaKey,
    ValueContext,
    ValueLimits,
    ValueProblem,
    WrittenRecord,
)
from dissectors.wire.errors import DecodeError
from dissectors.wire.primitives import escape_surrogates

__all__ = [
    "DEFAULT_LIMITS",
    "DecodedPart",
    "DecodedValue",
    "MissingPackage",
    "NotListed",
    "NotRegistered",
    "ProblemKind",
    "Schema",
    "SchemaKey",
    "ValueContext",
    "ValueLimits",
    "ValueProblem",
    "WrittenRecord",
    "decode",
    "schema_keys",
]


def decode(data: bytes | None, context: ValueContext) -> DecodedValue:
    """Decode a key or value.

    Args:
        data: The bytes; None for null, which has the format ``null`` (a tombstone, as the value in a compacted topic).
        context: The topic, the headers, and the known schemas.

    Returns:
        The value. If it does not decode, it has a problem, and the data that could be read, or the bytes. Offsets count
        from the first byte of `data`. No bytes and no schema make it raise.

    Raises:
        MissingPackage: A schema needs a package that is not installed.
    """
    if data is None:
        return DecodedValue("null", None)
    limits = context.limits
    if len(data) > limits.size:
        problem = ValueProblem(f"not decoded: {len(data)} bytes, the limit is {limits.size}")
        return DecodedValue("bytes", data[: limits.size], problem=problem, is_cut=True)
    value = _decode_any(data, context) if data else DecodedValue("empty", "")
    tree, is_cut, count = bound_tree(value.data, limits)
    name, value_problem = value.type, value.problem
    return replace(
        value,
        data=tree,
        is_cut=is_cut,
        steps=value.steps + count,
        type=None if name is None else escape_surrogates(name),
        problem=None if value_problem is None else replace(value_problem, text=escape_surrogates(value_problem.text)),
    )


def _decode_any(data: bytes, context: ValueContext) -> DecodedValue:
    return (
        internal_record(data, context)
        or streams_record(data, context, _decode_enveloped)
        or _decode_enveloped(data, context)
    )


def _decode_enveloped(data: bytes, context: ValueContext) -> DecodedValue:
    envelope = find_envelope(data, context)
    if envelope is None:
        return decode_plain(data, context)
    key = envelope.schema
    schema = context.schemas.get(key)
    try:
        payload = payload_of(data, envelope, context.limits.size)
    except DecodeError as error:
        misfit = ValueProblem(error.message, error.offset, ProblemKind.DOES_NOT_FIT)
        return DecodedValue("bytes", data, schema=key, problem=misfit)
    if not isinstance(schema, Schema):
        return _decode_without_schema(payload, envelope, schema, context)
    value = _decode_by_schema(payload, schema, envelope, context)
    if key.form == "subject":
        if value.problem is not None:  # nothing in the bytes names this schema
            return decode_plain(data, context)
        return replace(value, is_guess=True, subject=str(key.value))
    problem = value.problem
    if problem is not None and problem.offset is not None:
        offset = None if envelope.is_compressed else problem.offset + envelope.start
        problem = replace(problem, offset=offset)
    return replace(value, schema=key, subject=schema.subject, problem=problem)


def _decode_by_schema(payload: bytes, schema: Schema, envelope: Envelope, context: ValueContext) -> DecodedValue:
    if context.header(f"apicurio.{context.part}.encoding") == b"JSON":
        return decode_plain(payload, context)
    if (format_ := format_of(schema)) is None:
        return DecodedValue("bytes", payload, problem=ValueProblem(f"schemas of type {schema.type} are not supported"))
    try:
        return format_(payload, schema, context, envelope.indexes)
    except MissingPackage:
        raise
    except Exception as error:  # noqa: BLE001  # a bug in a library that reads untrusted bytes
        return DecodedValue("bytes", payload, problem=ValueProblem(f"decoding failed with {type(error).__name__}"))


_MISSING: Final = ((NotRegistered, ProblemKind.NOT_REGISTERED), (NotListed, ProblemKind.NOT_LISTED))


def _decode_without_schema(
    payload: bytes, envelope: Envelope, reason: str | None, context: ValueContext
) -> DecodedValue:
    """Decode a payload as well as possible without its schema."""
    inner = decode_plain(payload, context)
    key = envelope.schema
    kind = next((kind for reason_type, kind in _MISSING if isinstance(reason, reason_type)), ProblemKind.NO_SCHEMA)
    text = str(reason or f"no schema with {key} is known")  # as plain str, because JSON encoders refuse its class
    problem = ValueProblem(text, 1 if envelope.start else None, kind)
    return replace(inner, schema=key, is_guess=inner.is_guess or not envelope.is_marked, problem=problem)
