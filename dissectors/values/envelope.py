"""The envelopes that serializers put around keys and values to name their schema: a prefix, or a header.

| registry | prefix | header |
|---|---|---|
| Confluent | 0, id (int32); 1, GUID (16 bytes) | ``__key_schema_id``, ``__value_schema_id``: the same bytes |
| Apicurio | 0, id (int64), or Confluent's | ``apicurio.value.globalId``, ``.contentId`` (or ``.key.``): int64 |
| AWS Glue | 3, compression (0 none, 5 zlib), UUID | |
| Azure | | ``content-type: avro/binary+ID`` |

For Protobuf, Confluent's ids and GUIDs are followed by the indexes of the message (`message_indexes`).

Sources: Confluent's SchemaId and PrefixSchemaIdSerializer, Apicurio's DefaultIdHandler and KafkaSerdeHeaders, the Glue
schema registry's AWSSchemaRegistryConstants, Azure's SchemaRegistryApacheAvroSerializer.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.records.schema_ids import PREFIX_SIZE, schema_id
from dissectors.records.varint import read_zigzag
from dissectors.values.internal_topics import internal_record
from dissectors.values.streams_topics import inner_context, readings
from dissectors.values.value import Schema, SchemaKey, ValueContext
from dissectors.wire.errors import DecodeError
from dissectors.wire.primitives import Irregularity

_MAGIC_ID, _MAGIC_GUID, _MAGIC_GLUE = 0, 1, 3
_GUID_PREFIX, _LONG_PREFIX, _GLUE_PREFIX = 17, 9, 18
_ZLIB = 5
_AZURE = re.compile(rb"avro/binary\+([0-9a-fA-F]{32})")
_MAX_INDEXES = 64


@dataclass(frozen=True, slots=True)
class Envelope:
    """The key of a schema, and where the payload starts in the key or value.

    `indexes` are the bytes of Protobuf message indexes if they are in a header. `is_marked` is false for prefixes,
    which other data may have by chance.
    """

    schema: SchemaKey
    start: int = 0
    is_marked: bool = True
    indexes: bytes | None = None
    is_compressed: bool = False


def schema_keys(data: bytes | None, context: ValueContext) -> list[SchemaKey]:
    """Return the keys of the schemas that decoding may need; `context.schemas` is not read.

    Improbable prefixes are left out, so that binary data does not trigger lookups of thousands of schemas.
    """
    if not data or internal_record(data, context) is not None:
        return []
    streams_readings = readings(data, context)
    sources = [] if streams_readings and streams_readings[0].is_named else [(data, context)]
    sources += [
        (inner.data, inner_context(inner, context)) for reading in streams_readings for inner in reading.inner.values()
    ]
    return [
        candidate.schema
        for inner_data, candidate_context in sources
        if inner_data
        for candidate in _candidates(inner_data, candidate_context)
        if candidate.is_marked or _is_worth_looking_up(inner_data, candidate)
    ]


def find_envelope(data: bytes, context: ValueContext) -> Envelope | None:
    """Return the first envelope whose schema is known, otherwise the first probable one, if any."""
    candidates = list(_candidates(data, context))
    known_envelopes = (
        candidate for candidate in candidates if isinstance(context.schemas.get(candidate.schema), Schema)
    )
    probable_envelopes = (
        candidate for candidate in candidates if candidate.is_marked or _is_plausible_prefix(data, candidate)
    )
    return next(known_envelopes, None) or next(probable_envelopes, None)


def _candidates(data: bytes, context: ValueContext) -> Iterator[Envelope]:
    if header := context.header(f"__{context.part}_schema_id"):
        if header[0] == _MAGIC_GUID and len(header) >= _GUID_PREFIX:
            yield Envelope(SchemaKey("guid", _uuid(header[1:_GUID_PREFIX])), indexes=header[_GUID_PREFIX:])
        elif header[0] == _MAGIC_ID and len(header) >= PREFIX_SIZE:
            yield Envelope(SchemaKey("id", int.from_bytes(header[1:PREFIX_SIZE], "big")), indexes=header[PREFIX_SIZE:])
    for form, name in (("global_id", "globalId"), ("content_id", "contentId")):
        header = context.header(f"apicurio.{context.part}.{name}")
        if header and len(header) == 8:
            yield Envelope(SchemaKey(form, int.from_bytes(header, "big")))
    if not context.is_key and (match := _AZURE.fullmatch(context.header("content-type") or b"")):
        yield Envelope(SchemaKey("azure", match[1].decode().lower()))
    if data[0] == _MAGIC_ID and len(data) >= PREFIX_SIZE:
        if number := int.from_bytes(data[1:PREFIX_SIZE], "big"):
            yield Envelope(SchemaKey("id", number), PREFIX_SIZE, is_marked=False)
        elif len(data) > _LONG_PREFIX and (number := int.from_bytes(data[1:_LONG_PREFIX], "big")):
            yield Envelope(SchemaKey("global_id", number), _LONG_PREFIX, is_marked=False)
    elif data[0] == _MAGIC_GUID and len(data) >= _GUID_PREFIX:
        yield Envelope(SchemaKey("guid", _uuid(data[1:_GUID_PREFIX])), _GUID_PREFIX, is_marked=False)
    elif data[0] == _MAGIC_GLUE and len(data) >= _GLUE_PREFIX and data[1] in (0, _ZLIB):
        key = SchemaKey("glue", _uuid(data[2:_GLUE_PREFIX]))
        yield Envelope(key, _GLUE_PREFIX, is_marked=False, is_compressed=data[1] == _ZLIB)
    if context.topic is not None:
        yield Envelope(SchemaKey("subject", f"{context.topic}-{context.part}"), is_marked=False, indexes=b"\0")


def _is_worth_looking_up(data: bytes, envelope: Envelope) -> bool:
    if envelope.schema.form == "guid":
        return 1 <= data[7] >> 4 <= 8 and data[9] >> 6 == 2  # version and variant of RFC 9562
    return envelope.schema.form == "subject" or _is_plausible_prefix(data, envelope)


def _is_plausible_prefix(data: bytes, envelope: Envelope) -> bool:
    """Whether bytes that look like a prefix probably are one, if the schema is unknown."""
    form, value = envelope.schema
    if form == "id":
        return schema_id(data) is not None
    if form == "global_id":
        return int(value) < 1 << 31 and len(data) > _LONG_PREFIX
    return form == "glue" and data[8] >> 4 == 4 and data[10] >> 6 == 2  # Glue's UUIDs are random (version 4)


def payload_of(data: bytes, envelope: Envelope, limit: int) -> bytes:
    """Return the bytes after the envelope, decompressed to at most `limit` bytes.

    Raises:
        DecodeError: They do not decompress, or decompress to more bytes.
    """
    if not envelope.is_compressed:
        return data[envelope.start :]
    decompressor = zlib.decompressobj()
    try:
        payload = decompressor.decompress(data[envelope.start :], limit)
    except zlib.error:
        raise DecodeError("the payload is not zlib data", offset=envelope.start) from None
    if decompressor.unconsumed_tail:
        raise DecodeError(f"the payload decompresses to more than {limit} bytes", offset=envelope.start)
    if not decompressor.eof:
        raise DecodeError("the zlib data is cut off", offset=len(data))
    return payload


def message_indexes(data: bytes, offset: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the path to a Protobuf message in its file, outermost index first, and the offset after it.

    The path is written as a count and the indexes, as zigzag varints; a count of 0 stands for the first message.

    Raises:
        DecodeError: The bytes end too early, or the count is impossible.
    """
    count, end = _read_index(data, offset)
    if not 0 <= count <= _MAX_INDEXES:
        raise DecodeError(f"there are {count} message indexes", offset=offset)
    indexes = []
    for _ in range(count):
        index, end = _read_index(data, end)
        indexes.append(index)
    return tuple(indexes) or (0,), end


def _read_index(data: bytes, offset: int) -> tuple[int, int]:
    try:
        return read_zigzag(data, offset)
    except IndexError:
        raise DecodeError("the bytes end inside the message indexes", offset=len(data)) from None
    except Irregularity:
        raise DecodeError("a message index has more than 32 bits", offset=offset) from None


def _uuid(data: bytes) -> str:
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
