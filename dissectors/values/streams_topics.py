"""Keys and values in the internal topics of Kafka Streams: the parts that Streams adds, and the payloads inside.

| topic | key | value |
|---|---|---|
| ``APP-STORE-changelog`` | of a window store: key, start, sequence; of a session store: key, end, start | unchanged |
| ``APP-KTABLE-SUPPRESS-STATE-STORE-N-changelog`` | as in a repartition topic | not decoded |
| ``APP-KSTREAM-OUTERSHARED-N-store-changelog`` | timestamp, whether it is the left side, key | not decoded |
| ``APP-NAME-repartition`` | windowed: key, start; session: key, end, start | of a table: a new and an old value |
| ``APP-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-N-topic`` | unchanged | a subscription |
| ``APP-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-N-topic`` | unchanged | the response to a subscription |
| ``APP-KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-N-changelog`` | foreign and primary key | a subscription |

A name does not tell whether a store has windows, and users may choose names. So a key or value that decodes as it is
is kept as it is, and a reading is accepted only if its times are plausible or the key or value inside decodes.

Sources: Kafka's WindowKeySchema, SessionKeySchema, TimeWindowedSerializer, TimestampedKeyAndJoinSideSerializer,
ChangedDeserializer, CombinedKeySchema, SubscriptionWrapperSerde, SubscriptionResponseWrapperSerde; KTableImpl (names).
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from dissectors.records.varint import read_zigzag
from dissectors.values.internal_topics import MAX_TOPIC_LENGTH
from dissectors.values.value import DecodedValue, InnerValue, ProblemKind, ValueContext
from dissectors.wire.primitives import Irregularity

FORMAT: Final = "kafka-streams"

#: Plausible times in ms, which bytes with another meaning hardly ever match: the years 2000 to 2099.
_EARLIEST: Final = 946_684_800_000
_LATEST: Final = 4_102_444_800_000
#: The sequence number is 0 in stores without duplicates and in keys written by serializers; stores of joins count.
_MAX_SEQUENCE: Final = 1 << 24
_HASH_SIZE: Final = 16
_INSTRUCTIONS: Final = (
    "DELETE_KEY_NO_PROPAGATE",
    "DELETE_KEY_AND_PROPAGATE",
    "PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE",
    "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE",
)


class _Inner(NamedTuple):
    """The bytes of a key or value inside another one, and where they start."""

    data: bytes
    start: int
    part: str


class StreamsReading(NamedTuple):
    """A possible reading of a key or value.

    Attributes:
        type: As in `DecodedValue`.
        members: What Streams added, and None for the keys and values inside, in the order in which they are shown.
        inner: The keys and values inside, by their member.
        times: Times in ms, by which the reading is judged.
        is_named: Whether the name of the topic implies this reading.
    """

    type: str
    members: dict[str, Any]
    inner: dict[str, _Inner]
    times: tuple[int, ...] = ()
    is_named: bool = False


_Reader: TypeAlias = Callable[[bytes], StreamsReading | None]


def readings(data: bytes, context: ValueContext) -> list[StreamsReading]:
    """Return how a key or value in an internal topic of Kafka Streams can be read. Never raises."""
    topic = context.topic or ""
    if not topic.endswith(("-changelog", "-repartition", "-topic")) or len(topic) > MAX_TOPIC_LENGTH:
        return []
    is_named, key_readers, value_readers = _readers(topic)
    possible_readings = []
    for reader in key_readers if context.is_key else value_readers:
        try:
            reading = reader(data)
        except (struct.error, IndexError, Irregularity):
            continue
        if reading is not None:
            possible_readings.append(reading._replace(is_named=is_named and not reading.times))
    return possible_readings


def inner_context(inner: _Inner, context: ValueContext) -> ValueContext:
    """Return the context of a key or value inside. No header names the schema of a key inside a value."""
    is_key = inner.part == "key"
    return context if is_key == context.is_key else replace(context, is_key=is_key, headers=())


def streams_record(
    data: bytes, context: ValueContext, decode_value: Callable[[bytes, ValueContext], DecodedValue]
) -> DecodedValue | None:
    """Decode a key or value in one of these topics; return None for other topics. Raises what `decode_value` raises.

    Args:
        data: The key or value.
        context: Its context.
        decode_value: Decodes the key or value as it is, and the keys and values inside.
    """
    if not (candidates := readings(data, context)):
        return None
    plain_value = None if candidates[0].is_named else decode_value(data, context)
    if plain_value is not None and _is_decoded(plain_value):
        return plain_value
    decodings = (_decode_reading(reading, context, decode_value) for reading in candidates)
    return next((record for record in decodings if record is not None), plain_value)


def _decode_reading(
    reading: StreamsReading, context: ValueContext, decode_value: Callable[[bytes, ValueContext], DecodedValue]
) -> DecodedValue | None:
    """Return the value of a reading; None if the reading is unlikely."""
    payloads = [
        InnerValue(name, payload.part, _decode_inner(payload, context, decode_value))
        for name, payload in reading.inner.items()
    ]
    if not _is_likely(reading, [payload.value for payload in payloads]):
        return None
    with_schema = next(
        (payload.value for payload in payloads if payload.part == context.part and payload.value.schema is not None),
        None,
    )
    problem = next((payload.value.problem for payload in payloads if payload.value.problem is not None), None)
    data = reading.members | {payload.name: payload.value.data for payload in payloads}
    if (digest := data.get("hash")) is not None:  # the hash is of a value, so masking values also hides the hash
        payloads.append(InnerValue("hash", "value", DecodedValue("bytes", digest)))
    return DecodedValue(
        FORMAT,
        data,
        is_guess=True,
        type=reading.type,
        schema=None if with_schema is None else with_schema.schema,
        subject=None if with_schema is None else with_schema.subject,
        problem=problem,
        inner=tuple(payloads),
    )


def _decode_inner(
    inner: _Inner, context: ValueContext, decode_value: Callable[[bytes, ValueContext], DecodedValue]
) -> DecodedValue:
    """Decode a key or value inside; the offset of its problem counts from the first byte of the outer one."""
    if not inner.data:
        return DecodedValue("empty", "")
    value = decode_value(inner.data, inner_context(inner, context))
    problem = value.problem
    if problem is None or problem.offset is None:
        return value
    return replace(value, problem=replace(problem, offset=problem.offset + inner.start))


def _is_decoded(value: DecodedValue) -> bool:
    return value.problem is None and value.format not in ("bytes", "empty")


_MISSING: Final = (ProblemKind.NO_SCHEMA, ProblemKind.NOT_REGISTERED, ProblemKind.NOT_LISTED)


def _is_likely(reading: StreamsReading, inner: Iterable[DecodedValue]) -> bool:
    if reading.is_named:
        return True
    if not reading.times:
        return all(_is_decoded(decoded_value) for decoded_value in inner)
    is_certain = all(_is_decoded(decoded_value) and decoded_value.format != "text" for decoded_value in inner)
    earliest = 0 if is_certain else _EARLIEST
    return all(earliest <= time < _LATEST for time in reading.times) and all(
        decoded_value.problem is None or decoded_value.problem.kind in _MISSING for decoded_value in inner
    )


def _read_window_store_key(data: bytes) -> StreamsReading | None:
    start, sequence = struct.unpack(">qi", data[-12:])
    if not 0 <= sequence < _MAX_SEQUENCE:
        return None
    return _windowed_reading("windowed-key", data[:-12], (start,), {"window_start": start, "sequence": sequence})


def _read_session_key(data: bytes) -> StreamsReading | None:
    end, start = struct.unpack(">qq", data[-16:])
    if start > end:
        return None
    return _windowed_reading("session-key", data[:-16], (start, end), {"window_start": start, "window_end": end})


def _read_window_key(data: bytes) -> StreamsReading | None:
    (start,) = struct.unpack(">q", data[-8:])
    return _windowed_reading("windowed-key", data[:-8], (start,), {"window_start": start})


def _windowed_reading(type_: str, key: bytes, times: tuple[int, ...], members: dict[str, Any]) -> StreamsReading | None:
    return StreamsReading(type_, {"key": None} | members, {"key": _Inner(key, 0, "key")}, times) if key else None


def _read_join_side_key(data: bytes) -> StreamsReading | None:
    (timestamp, side), key = struct.unpack(">qB", data[:9]), data[9:]
    if side > 1 or not key:
        return None
    members = {"timestamp": timestamp, "side": ("right", "left")[side], "key": None}
    return StreamsReading("join-side-key", members, {"key": _Inner(key, 9, "key")}, (timestamp,))


def _read_combined_key(data: bytes) -> StreamsReading | None:
    (size,) = struct.unpack(">i", data[:4])
    end = 4 + size
    if not 4 < end < len(data):
        return None
    inner = {"foreign_key": _Inner(data[4:end], 4, "key"), "primary_key": _Inner(data[end:], end, "key")}
    return StreamsReading("combined-key", dict.fromkeys(inner), inner)


def _read_subscription(data: bytes) -> StreamsReading | None:
    version, instruction = data[0] & 0x7F, data[1]
    start, digest = _read_hash(data, 2)
    end = len(data) - 4 * version
    if version > 1 or instruction >= len(_INSTRUCTIONS) or start > end:
        return None
    members = {"version": version, "instruction": _INSTRUCTIONS[instruction], "hash": digest, "primary_key": None}
    if version:
        (members["primary_partition"],) = struct.unpack(">i", data[end:])
    return StreamsReading("subscription", members, {"primary_key": _Inner(data[start:end], start, "key")})


def _read_subscription_response(data: bytes) -> StreamsReading | None:
    version = data[0] & 0x7F
    start, digest = _read_hash(data, 1)
    if version or start > len(data):
        return None
    inner = {"value": _Inner(data[start:], start, "value")} if start < len(data) else {}  # no bytes stand for null
    return StreamsReading("subscription-response", {"version": version, "hash": digest, "value": None}, inner)


def _read_hash(data: bytes, offset: int) -> tuple[int, str | None]:
    """Return the offset after the hash of a value, and the hash; None if there is none."""
    return (offset, None) if data[0] & 0x80 else (offset + _HASH_SIZE, data[offset : offset + _HASH_SIZE].hex())


def _read_change(data: bytes) -> StreamsReading | None:
    """Read a change. Its last byte tells which values it has and, if it is 3 or more, that ``latest`` precedes it."""
    flag, end, start = data[-1], len(data) - 1, 0
    members: dict[str, Any] = {"new": None, "old": None}
    if flag > 5:
        return None
    if flag > 2:
        end -= 1
        if end < 0 or data[end] > 1:
            return None
        members["latest"] = bool(data[end])
    kind = flag % 3
    if kind == 2:
        size, start = read_zigzag(data, 0)
        if not 0 <= size <= end - start:
            return None
        middle = start + size
        new, old = _Inner(data[start:middle], start, "value"), _Inner(data[middle:end], middle, "value")
        return StreamsReading("change", members, {"new": new, "old": old})
    return StreamsReading("change", members, {("old", "new")[kind]: _Inner(data[:end], 0, "value")})


_TopicReaders: TypeAlias = tuple[bool, tuple[_Reader, ...], tuple[_Reader, ...]]
_OTHER_TOPIC: Final[_TopicReaders] = (False, (), ())


@functools.lru_cache(256)
def _readers(topic: str) -> _TopicReaders:
    return next((row for pattern, row in _TOPICS if pattern.fullmatch(topic)), _OTHER_TOPIC)


#: Pattern of a topic's name, whether the name alone implies the content, and the readers of keys and of values.
#: Stricter readers come first, because a session key ends like a windowed key.
_TOPICS: Final[tuple[tuple[re.Pattern[str], _TopicReaders], ...]] = tuple(
    (re.compile(f".+-{pattern}"), row)
    for pattern, row in (
        (r"KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-\d+-topic", (True, (), (_read_subscription,))),
        (r"subscription-registration-topic", (False, (), (_read_subscription,))),
        (r"KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-\d+-topic", (True, (), (_read_subscription_response,))),
        (r"subscription-response-topic", (False, (), (_read_subscription_response,))),
        (
            r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-\d+-changelog",
            (True, (_read_combined_key,), (_read_subscription,)),
        ),
        (r"KSTREAM-OUTERSHARED-\d+-store-changelog", (True, (_read_join_side_key,), ())),
        (r"(left|outer)-shared-join-store-changelog", (False, (_read_join_side_key,), ())),
        (r"KTABLE-SUPPRESS-STATE-STORE-\d+-changelog", (False, (_read_session_key, _read_window_key), ())),
        (r"changelog", (False, (_read_session_key, _read_window_store_key), ())),
        (
            r"KTABLE-(AGGREGATE|REDUCE)-STATE-STORE-\d+-repartition",
            (True, (_read_session_key, _read_window_key), (_read_change,)),
        ),
        (r"repartition", (False, (_read_session_key, _read_window_key), (_read_change,))),
    )
)
