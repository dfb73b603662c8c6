"""The facts about a message that overviews show: topics, group, generation, errors.

The fields with these facts are determined once per layout, from the schema (entity types, names). Reading a fact is
then a lookup in the decoded values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

from dissectors import schemas
from dissectors.messages.message import Message
from dissectors.messages.topic_records import fetch_offsets, records_path, topic_records
from dissectors.records import outline
from dissectors.records.formats import CONTROL, DELETE_HORIZON, TIMESTAMP_TYPE
from dissectors.records.record_checks import BatchSpan
from dissectors.wire.layout import Field, Layout, cached_on_owner

_PARTITION_FIELDS = ("partition_index", "partition", "index", "partition_id", "partitions", "partition_indexes")
_GENERATION_FIELDS = ("generation_id", "generation_id_or_member_epoch", "member_epoch")

#: The number of bytes at the start of a batch that its length does not count.
BATCH_START = 12

#: The largest integer in a trace; sums of values from the wire must not exceed it.
_MAX_INT64 = (1 << 63) - 1

Values = dict[str, Any]

TopicT = TypeVar("TopicT")


class TopicFacts(NamedTuple):
    """One topic of a message: its partitions and the size of its record data.

    `name` is None if only `topic_id` (uuid as text) is on the wire. `bytes`, `records`, `batches`, `compression`
    (counted as in `dissectors.records.outline`) and `partition_bytes`, parallel to `partitions`, are set for messages
    that carry record data. `lag` is set for Fetch responses: the number of records between the end of the response and
    the high watermark, summed over the partitions; None if it cannot be determined.

    For a response with record data, `offsets` and `ages_ms` are parallel to `partitions`: the base offset of the first
    batch, and the time from the timestamp of its first record to the response; None without a complete batch of format
    2. `append_time`: the timestamps are the broker's (LogAppendTime), not the producer's. Batches of transaction
    markers have no age.
    """

    name: str | None
    topic_id: str | None
    partitions: list[int]
    bytes: int | None = None
    records: int | None = None
    batches: int | None = None
    compression: Sequence[str] = ()
    partition_bytes: Sequence[int] = ()
    lag: int | None = None
    offsets: Sequence[int | None] = ()
    ages_ms: Sequence[int | None] = ()
    append_time: bool = False


class ErrorField(NamedTuple):
    """A non-zero error code. `path` is like ``responses[0].partitions[2].error_code``."""

    path: str
    code: int
    name: str


@overload
def topics(message: Message, request: Message | None = None, *, at: int = 0) -> list[TopicFacts]: ...


@overload
def topics(
    message: Message, request: Message | None = None, *, at: int = 0, make: Callable[..., TopicT]
) -> list[TopicT]: ...


def topics(
    message: Message, request: Message | None = None, *, at: int = 0, make: Callable[..., Any] = TopicFacts
) -> list[Any]:
    """Return the topics in a message, in wire order; a topic that occurs twice is returned twice.

    For a response, `request` is its request: the lag of a Fetch response without records is counted from the fetch
    offset. `at` is the time of the response (ns), up to which ages are counted. `make` is called with the values of
    `TopicFacts` to create each topic.
    """
    if message.layout is None:
        return []
    if records_path(message.layout) is not None:
        return _topics_with_records(message, request, at, make)
    topics: list[Any] = []
    for reader in _topic_readers(message.layout):
        reader(message.body, topics, make)
    return topics


def errors(message: Message) -> list[ErrorField]:
    """Return the non-zero error codes in a response, in wire order."""
    if message.layout is None or message.is_request or not message.may_have_errors:
        return []
    if message.errors_cache is None:
        message.errors_cache = [
            ErrorField(path, code, schemas.error_name(code) or f"UNKNOWN_ERROR_{code}")
            for reader in _error_readers(message.layout)
            for path, code in reader(message.body, "")
        ]
    return message.errors_cache


def group_id(message: Message) -> str | None:
    """Return the group that a message refers to; None if it refers to no group or to several."""
    if message.layout is None or not _names_group(message.layout):
        return None
    value = message.body.get("group_id")
    if value is None:
        groups = message.body.get("groups") or message.body.get("groups_names") or message.body.get("group_ids")
        if isinstance(groups, list) and len(groups) == 1:
            value = groups[0].get("group_id") if isinstance(groups[0], dict) else groups[0]
        elif message.api == "FindCoordinator":
            value = _coordinator_key(message.body, key_type=0)
    return value if isinstance(value, str) else None


def generation_id(message: Message) -> int | None:
    """Return the generation of the group, or the epoch of the member (KIP-848, KIP-932, KIP-1071), as on the wire.

    -1 means none. Return None if the message has no such field or refers to several groups.
    """
    if message.layout is None:
        return None
    path = _generation_path(message.layout)
    if not path:
        return None
    values: Values | None = message.body if len(path) == 1 else _single_row(message.body.get(path[0]))
    return values.get(path[-1]) if values else None


def transactional_id(message: Message) -> str | None:
    """Return the transactional id that a message refers to; None if it refers to none or to several."""
    if message.layout is None or not _names_transaction(message.layout):
        return None
    body = message.body
    if "transactional_id" in body:  # nearly always
        value = body["transactional_id"] or None
        return value if isinstance(value, str) else None
    value = body.get("v3_and_below_transactional_id") or None
    if value is None:
        transactions = body.get("transactions")
        if isinstance(transactions, list) and len(transactions) == 1 and isinstance(transactions[0], dict):
            value = transactions[0].get("transactional_id")
        elif message.api == "FindCoordinator":
            value = _coordinator_key(body, key_type=1)
    return value if isinstance(value, str) else None


@cached_on_owner
def _names_group(layout: Layout) -> bool:
    """Whether a message may name a group; FindCoordinator has a ``key``."""
    return any("group" in field.name or "key" in field.name for field in (*layout.fields, *layout.tagged))


@cached_on_owner
def _names_transaction(layout: Layout) -> bool:
    return any("transaction" in field.name or "key" in field.name for field in (*layout.fields, *layout.tagged))


@cached_on_owner
def _generation_path(layout: Layout) -> tuple[str, ...]:
    """Return the path to the generation, in the message or in the structs of an array of groups; empty if none."""
    for field in layout.fields:
        if field.name in _GENERATION_FIELDS:
            return (field.name,)
        if field.array and field.struct is not None and any(inner.name == "group_id" for inner in field.struct.fields):
            nested = _generation_path(field.struct)
            return (field.name, *nested) if nested else ()
    return ()


def _single_row(rows: list[Values] | None) -> Values | None:
    return rows[0] if rows and len(rows) == 1 else None


def _coordinator_key(body: Values, key_type: int) -> str | None:
    if body.get("key_type", 0) != key_type:
        return None
    keys = body.get("coordinator_keys") or [body.get("key")]
    return keys[0] if len(keys) == 1 else None


def _rows(values: Values, name: str, array: bool) -> list[Values]:
    """Return the structs in a field; empty if a partial tree does not have it."""
    value = values.get(name)
    if not value:
        return []
    return value if array else [value]


TopicReader = Callable[[Values, list[Any], Callable[..., Any]], None]


@cached_on_owner
def _topic_readers(layout: Layout) -> list[TopicReader]:
    readers: list[TopicReader] = []
    for field in (*layout.fields, *layout.tagged):
        if field.struct is not None:
            fields = {inner.name: inner for inner in field.struct.fields}
            names = (inner.name for inner in field.struct.fields if inner.entity == "topicName" and not inner.array)
            name = next(names, None)
            if name or "topic_id" in fields:
                readers.append(_topic_reader(field, name, fields))
            elif nested := _topic_readers(field.struct):
                readers.append(_nested_reader(field, nested))
        elif field.entity == "topicName" and field.array:
            readers.append(_name_list_reader(field.name))
    return readers


def _nested_reader(field: Field, readers: list[TopicReader]) -> TopicReader:
    def read_topics(values: Values, topics: list[Any], make_topic: Callable[..., Any]) -> None:
        for row in _rows(values, field.name, field.array):
            for reader in readers:
                reader(row, topics, make_topic)

    return read_topics


def _name_list_reader(name: str) -> TopicReader:
    def read_topics(values: Values, topics: list[Any], make_topic: Callable[..., Any]) -> None:
        topics.extend(make_topic(topic, None, []) for topic in values.get(name) or ())

    return read_topics


def _topic_reader(field: Field, name: str | None, fields: dict[str, Field]) -> TopicReader:
    partitions_field = next(
        (inner for inner in fields.values() if inner.array and _partition_field_name(inner) is not None), None
    )
    index = _partition_field_name(partitions_field) if partitions_field else None
    own_index = next((name for name in ("partition_index", "partition") if name in fields), None)

    def read_topics(values: Values, topics: list[Any], make_topic: Callable[..., Any]) -> None:
        for row in _rows(values, field.name, field.array):
            rows = row.get(partitions_field.name) or [] if partitions_field else []
            numbers = [inner_row[index] for inner_row in rows if index in inner_row] if index else list(rows)
            if own_index and own_index in row and not partitions_field:
                numbers = [row[own_index]]
            topics.append(make_topic(row.get(name) if name else None, row.get("topic_id"), numbers))

    return read_topics


def _topics_with_records(
    message: Message, request: Message | None, at: int, make_topic: Callable[..., TopicT]
) -> list[TopicT]:
    """Return the topics of a message with record data. The request's partitions are read only if needed."""
    offsets: dict[tuple[str, int], int] | None = None
    has_high_watermarks = not message.is_request
    result = []
    for topic, topic_id, partitions in topic_records(message):
        partition_indexes: list[int] = []
        sizes: list[int] = []
        codecs: list[str] = []
        first_batches: dict[int, BatchSpan] = {}
        total_bytes = records = batches = 0
        lag: int | None = None
        for partition, row, data, batch, complete_batches in partitions:
            size, next_offset = 0, None
            if data:
                size = len(data)
                total_bytes += size
                count, batch_count, codec_names, next_offset = outline(data, complete_batches)
                records += count
                batches += batch_count
                for codec in codec_names:
                    if codec not in codecs:
                        codecs.append(codec)
            if partition is None:
                continue
            if has_high_watermarks and batch is not None and 0 < batch.batch_length <= size - BATCH_START:  # complete
                first_batches[len(partition_indexes)] = batch
            partition_indexes.append(partition)
            sizes.append(size)
            if (
                has_high_watermarks
                and (high_watermark := row.get("high_watermark", -1)) >= 0
                and not row.get("error_code")
            ):
                if next_offset is None:
                    if offsets is None:
                        offsets = {} if request is None else fetch_offsets(request)
                    next_offset = offsets.get((topic or topic_id or "", partition), -1)
                if next_offset >= 0:
                    lag = (lag or 0) + (high_watermark - next_offset if high_watermark > next_offset else 0)
        if lag is not None and lag > _MAX_INT64:
            lag = _MAX_INT64
        if batches and has_high_watermarks:
            offsets_and_ages = _offsets_and_ages(first_batches, len(partition_indexes), at)
            result.append(
                make_topic(
                    topic,
                    topic_id,
                    partition_indexes,
                    total_bytes,
                    records,
                    batches,
                    codecs,
                    sizes,
                    lag,
                    *offsets_and_ages,
                )
            )
        else:
            result.append(
                make_topic(topic, topic_id, partition_indexes, total_bytes, records, batches, codecs, sizes, lag)
            )
    return result


def _offsets_and_ages(
    first_batches: Mapping[int, BatchSpan], count: int, at: int
) -> tuple[list[int | None], list[int | None], bool]:
    """Return `offsets`, `ages_ms` and `append_time` of `count` partitions, given the first batches by partition."""
    if not first_batches:
        return [], [], False  # lists of null would only lengthen the lines
    offsets: list[int | None] = [None] * count
    ages: list[int | None] = [None] * count
    has_age = is_append_time = False
    for index, batch in first_batches.items():
        attributes = batch.attributes
        # The base timestamp of a batch with append time is still the producer's.
        is_append_time = attributes & TIMESTAMP_TYPE != 0
        timestamp = batch.max_timestamp if is_append_time else batch.base_timestamp
        offsets[index] = batch.base_offset
        if at and timestamp >= 0 and not attributes & (CONTROL | DELETE_HORIZON):
            ages[index] = at // 1_000_000 - timestamp
            has_age = True
    return offsets, ages if has_age else [], is_append_time


def _partition_field_name(field: Field) -> str | None:
    """Return the field name of the partition number in an array's structs: empty for an array of numbers, or None."""
    if field.struct is not None:
        names = {inner.name for inner in field.struct.fields if inner.type == "int32" and not inner.array}
        return next((name for name in _PARTITION_FIELDS if name in names), None)
    return "" if field.type == "int32" and field.name in _PARTITION_FIELDS else None


class PossibleFacts(NamedTuple):
    """Which facts messages of a layout may have; the others need not be searched for.

    The facts are those of `topics`, `group_id` with `generation_id`, `transactional_id`, and a member id.
    """

    topics: bool
    group: bool
    member: bool
    transaction: bool


@cached_on_owner
def _possible_facts(layout: Layout) -> PossibleFacts:
    names_member = any(field.name == "member_id" for field in (*layout.fields, *layout.tagged))
    return PossibleFacts(bool(_topic_readers(layout)), _names_group(layout), names_member, _names_transaction(layout))


_NO_FACTS = PossibleFacts(topics=False, group=False, member=False, transaction=False)


def facts_in(message: Message) -> PossibleFacts:
    """Return the facts that a message may have."""
    return _NO_FACTS if message.layout is None else _possible_facts(message.layout)


ErrorReader = Callable[[Values, str], Iterator[tuple[str, int]]]


@cached_on_owner
def _error_readers(layout: Layout) -> list[ErrorReader]:
    readers: list[ErrorReader] = []
    for field in (*layout.fields, *layout.tagged):
        if field.type == "int16" and not field.array and field.name.endswith("error_code"):
            readers.append(_code_reader(field.name))
        elif field.struct is not None and (nested := _error_readers(field.struct)):
            readers.append(_nested_error_reader(field, nested))
    return readers


def _code_reader(name: str) -> ErrorReader:
    def read_code(values: Values, path: str) -> Iterator[tuple[str, int]]:
        if code := values.get(name):
            yield path + name, code

    return read_code


def _nested_error_reader(field: Field, readers: list[ErrorReader]) -> ErrorReader:
    def read_codes(values: Values, path: str) -> Iterator[tuple[str, int]]:
        for index, row in enumerate(_rows(values, field.name, field.array)):
            prefix = f"{path}{field.name}[{index}]." if field.array else f"{path}{field.name}."
            for reader in readers:
                yield from reader(row, prefix)

    return read_codes
