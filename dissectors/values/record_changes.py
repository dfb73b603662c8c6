"""Find what changed in a record between Produce and Fetch: its envelopes, fields, bytes, headers or timestamp."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dissectors.values import decode
from dissectors.values.envelope import Envelope, find_envelope, message_indexes, payload_of
from dissectors.values.value import (
    DEFAULT_LIMITS,
    DecodedValue,
    ProblemKind,
    Schema,
    SchemaKey,
    ValueContext,
    WrittenRecord,
)
from dissectors.wire.errors import DecodeError

_PARTS: Final = ("key", "value")
_ENVELOPE_HEADERS: Final = frozenset(
    form.format(part) for part in _PARTS for form in ("__{}_schema_id", "apicurio.{}.globalId", "apicurio.{}.contentId")
)
_FORMAT_WITH_HEADERS: Final = 2
_MAX_NAME_LENGTH: Final = 200  # in characters, for the name of a field or header in a text


class RecordChange(NamedTuple):
    """A change to a record.

    Attributes:
        part: ``key``, ``value``, ``headers`` or ``timestamp``.
        kind: The kind of change; all changes of a kind have the same cause.
        text: A clause about the fetched part that does not quote any value.
        offset: The first byte of the fetched key or value that differs.
        keeps_content: Whether the payload has the same fields.
    """

    part: str
    kind: str
    text: str
    offset: int = 0
    keeps_content: bool = False


def record_changes(
    produced: WrittenRecord,
    fetched: WrittenRecord,
    schemas: Mapping[SchemaKey, Schema],
    *,
    append_time: int,
    is_recent: bool,
) -> list[RecordChange]:
    """Return the changes of a record; none if another record may have its offset, e.g. because the topic was recreated.

    Args:
        produced: The record in the Produce.
        fetched: The record with the same offset in a Fetch.
        schemas: The schemas by which the two records decode.
        append_time: The append time in the response to the Produce (ms), -1 for none. It counts only for records with
            LogAppendTime: Kafka also returns one for a batch that it has already (`UnifiedLog.append`).
        is_recent: Whether the Produce was so recent that the offset must still belong to the same record.
    """
    expected = append_time if fetched.is_append_time else produced.timestamp
    has_time = expected >= 0 and fetched.magic > 0
    is_same_time = has_time and fetched.timestamp == expected
    if not is_same_time and not is_recent:
        return []
    changes = [change for part in _PARTS if (change := _part_change(part, produced, fetched, schemas))]
    if has_time and not is_same_time:
        if not produced.value or not all(change.keeps_content for change in changes):
            return []  # probably another record
        if not changes and fetched.timestamp > expected:
            return []  # perhaps a later record with the same content
        times = f"it was {expected} ms, and is {fetched.timestamp} ms"
        changes.append(RecordChange("timestamp", "timestamp", times))
    if fetched.magic >= _FORMAT_WITH_HEADERS and (headers := _header_change(produced, fetched)):
        changes.append(RecordChange("headers", "headers", headers))
    return changes


class _RecordSide:
    """A key or value on one side: its envelope, and its body without the envelope and Protobuf message indexes."""

    def __init__(self, part: str, record: WrittenRecord, data: bytes, schemas: Mapping[SchemaKey, Schema]) -> None:
        self.data = data
        self.context = ValueContext(record.topic, part == "key", record.headers, schemas)
        self.envelope = find_envelope(data, self.context)
        self.schema = None if self.envelope is None else schemas.get(self.envelope.schema)
        self.body = data
        self.indexes: tuple[int, ...] = ()
        if self.envelope is not None:
            try:
                self._open_envelope(self.envelope)
            except DecodeError:
                self.body = data

    def _open_envelope(self, envelope: Envelope) -> None:
        self.body = payload_of(self.data, envelope, DEFAULT_LIMITS.size)
        if self.schema is not None and self.schema.type == "PROTOBUF":
            self.indexes, end = message_indexes(self.body if envelope.indexes is None else envelope.indexes)
            if envelope.indexes is None:
                self.body = self.body[end:]

    @property
    def is_certain(self) -> bool:
        """Whether there certainly is an envelope; bytes may look like a prefix by chance."""
        return self.envelope is not None and (self.envelope.is_marked or self.schema is not None)

    def decode_like(self, other: _RecordSide) -> DecodedValue:
        """Decode the data, with the schema of the other side if this side has none."""
        if self.schema is not None or other.schema is None:
            return decode(self.data, self.context)
        subject = SchemaKey("subject", f"{self.context.topic}-{self.context.part}")
        context = ValueContext(self.context.topic, self.context.is_key, (), {subject: other.schema})
        return decode(self.body, context)


def _part_change(
    part: str, produced: WrittenRecord, fetched: WrittenRecord, schemas: Mapping[SchemaKey, Schema]
) -> RecordChange | None:
    old_data, new_data = getattr(produced, part), getattr(fetched, part)
    if old_data == new_data:
        return None
    if not old_data or not new_data:
        return RecordChange(part, "null", f"it was {_size_text(old_data)}, and is {_size_text(new_data)}")
    old, new = _RecordSide(part, produced, old_data, schemas), _RecordSide(part, fetched, new_data, schemas)
    kind, text = _envelope_change(old, new)
    if old.body == new.body and kind:
        return RecordChange(part, kind, f"{text}; its other bytes are the same", 0, keeps_content=True)
    body_kind, body_text = _body_change(old, new, hides_names=produced.masked)
    start = 0 if kind else len(new_data) - len(new.body) + _common_prefix_length(old.body, new.body)
    keeps_content = body_kind in ("format", "encoding")
    return RecordChange(part, kind or body_kind, "; ".join(filter(None, (text, body_text))), start, keeps_content)


def _size_text(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} byte{'s' * (len(data) != 1)}"


def _envelope_change(old: _RecordSide, new: _RecordSide) -> tuple[str, str]:
    """Return the kind and text of a change of the envelope; empty if there is none, or if envelopes are doubtful."""
    old_envelope, new_envelope = old.envelope, new.envelope
    if old.body != new.body and not all(side.envelope is None or side.is_certain for side in (old, new)):
        return "", ""
    if old_envelope is None:
        added = "" if new_envelope is None else f"it has an envelope with schema {new_envelope.schema}, and had none"
        return added and "envelope added", added
    if new_envelope is None:
        return "envelope lost", f"its envelope with schema {old_envelope.schema} is missing"
    if old_envelope.schema != new_envelope.schema:
        return "schema changed", f"its schema was {old_envelope.schema}, and is {new_envelope.schema}"
    locations = [
        f"in {'its first bytes' if envelope.start else 'a header'}" for envelope in (old_envelope, new_envelope)
    ]
    if locations[0] != locations[1]:
        return "schema moved", f"the schema {old_envelope.schema} was {locations[0]}, and is {locations[1]}"
    if old_envelope.is_compressed != new_envelope.is_compressed:
        return "compression", f"it is {'no longer' if old_envelope.is_compressed else 'now'} compressed"
    if old.indexes != new.indexes:
        return "message index", f"its message indexes were {old.indexes}, and are {new.indexes}"
    return "", ""


def _body_change(old: _RecordSide, new: _RecordSide, *, hides_names: bool) -> tuple[str, str]:
    old_value, new_value = old.decode_like(new), new.decode_like(old)
    is_converted = old_value.format != new_value.format
    if _is_partial(old_value) or _is_partial(new_value) or (not is_converted and old_value.format in ("bytes", "text")):
        return "bytes", f"its bytes differ from byte {_common_prefix_length(old.data, new.data)} on"
    conversion = f"{old_value.format} became {new_value.format}" if is_converted else ""
    if (difference := _difference(old_value.data, new_value.data, "")) is not None:
        fields = "its fields differ" if hides_names else difference
        return "fields", f"{conversion}, and {fields}" if conversion else fields
    if is_converted:
        return "format", f"{conversion}, with the same fields"
    return (
        "encoding",
        f"its fields are the same, but its bytes differ from byte {_common_prefix_length(old.data, new.data)} on",
    )


def _is_partial(value: DecodedValue) -> bool:
    problem = value.problem
    return value.is_cut or (problem is not None and problem.kind is not ProblemKind.VIOLATION)


def _difference(old: Any, new: Any, path: str) -> str | None:
    """Return a clause about the first field that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            field_path = _truncate(f"{path}.{name}" if path else name)
            if name not in new:
                return f"the field {field_path} is missing"
            if name not in old:
                return f"the field {field_path} is new"
            if (difference := _difference(old[name], new[name], field_path)) is not None:
                return difference
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return next(
            (difference for index, pair in pairs if (difference := _difference(*pair, f"{path}[{index}]"))), None
        )
    is_equal = (isinstance(old, bool) is isinstance(new, bool) and old == new) or (old != old and new != new)  # NaN
    return None if is_equal else f"the field {path} differs" if path else "it differs"


def _truncate(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}..."


def _header_change(produced: WrittenRecord, fetched: WrittenRecord) -> str | None:
    """Return how the headers changed, ignoring those of envelopes; None if they did not change."""
    old_headers, new_headers = (
        [header for header in record.headers if header[0] not in _ENVELOPE_HEADERS] for record in (produced, fetched)
    )
    if old_headers == new_headers:
        return None
    if produced.masked:
        return "the headers differ"
    old, new = (Counter(name for name, _ in headers) for headers in (old_headers, new_headers))
    for names, state in ((old - new, "missing"), (new - old, "new")):
        if names:
            others_text = f", and {names.total() - 1} more" if names.total() > 1 else ""
            return f"the header {_truncate(next(iter(names)))} is {state}{others_text}"
    if changed_headers := Counter(old_headers) - Counter(new_headers):
        return f"the value of the header {_truncate(next(iter(changed_headers))[0])} differs"
    return "the headers are in another order"


def _common_prefix_length(first: bytes, second: bytes) -> int:
    """Return the length of the common prefix of two byte strings."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # bisection, because comparing byte by byte takes 50 ms for a MiB
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low
