"""The table of filter fields, which the parser, completion and docs/filters.md use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count, takewhile
from typing import Any

from kproxy.filters import record_fields

Line = Mapping[str, Any]
Read = Callable[[Line], Any]


class Kind(StrEnum):
    """How a field's values are written and compared."""

    NAME = "name"  # case-insensitive text
    TEXT = "text"
    NUMBER = "number"
    COUNT = "count"  # a number; 0 counts as absent
    DURATION = "duration"
    SIZE = "size"
    TIME = "time"
    FLAG = "flag"
    SEVERITY = "severity"
    ERROR = "error"
    RECORD = "record"  # text, numbers, true, false and null


@dataclass(frozen=True, slots=True)
class FilterField:
    """A field.

    `read` returns the value in a line or None; with `many`, a sequence of values. `columns` are the keys of a line that
    it reads. `known` returns values to suggest; if `closed`, no others are valid. `unit` is what 1 in the trace means:
    for a duration, in microseconds.
    """

    name: str
    kind: Kind
    help: str
    read: Read
    columns: frozenset[str]
    aliases: tuple[str, ...] = ()
    many: bool = False
    known: Callable[[], Sequence[str]] = tuple
    closed: bool = False
    unit: int = 1


def _line_field(name: str, kind: Kind, help_: str, *aliases: str, **options: Any) -> FilterField:
    """Return a field that reads a key of the line."""
    return FilterField(name, kind, help_, lambda line: line.get(name), frozenset({name}), aliases, **options)


def _kind_field(line_kind: str, name: str, kind: Kind, help_: str, **options: Any) -> FilterField:
    """Return a field for a key of one kind of line. Traces omit 0 and false, so a missing key means 0 or false."""
    default = False if kind is Kind.FLAG else 0

    def read(line: Line) -> Any:
        value = line.get(name)
        return default if value is None and line.get("kind") == line_kind else value

    return FilterField(name, kind, help_, read, frozenset({name, "kind"}), **options)


def _multi_field(
    name: str, kind: Kind, help_: str, read: Read, *aliases: str, columns: Sequence[str], **options: Any
) -> FilterField:
    return FilterField(name, kind, help_, read, frozenset(columns), aliases, many=True, **options)


def _list_reader(name: str) -> Read:
    return lambda line: line.get(name) or ()


def _entries_reader(entries: str, key: str) -> Read:
    """Return a function that reads one key from each entry of an array."""
    return lambda line: [value for entry in line.get(entries) or () if (value := entry.get(key)) is not None]


def _nested_entries_reader(entries: str, key: str) -> Read:
    """Return a function that reads one key, which holds a list, from each entry of an array, and joins the lists."""
    return lambda line: list(chain.from_iterable(entry.get(key) or () for entry in line.get(entries) or ()))


_read_ages = _nested_entries_reader("topics", "ages_ms")
_read_base_offsets = _nested_entries_reader("topics", "offsets")


def _read_software(line: Line) -> Sequence[str]:
    """Return a client's software: its name, and its name with its version."""
    name, version = line.get("software_name"), line.get("software_version")
    if name is None:
        return ()
    return (name,) if version is None else (name, f"{name} {version}")


def _finding_reader(key: str) -> Read:
    """Return a function that reads a key of a frame's findings and repeated findings, or of a finding or stall line."""

    def read(line: Line) -> Sequence[str]:
        values = [entry.get(key) for name in ("findings", "repeats") for entry in line.get(name) or ()]
        if line.get("kind") in ("finding", "stall"):
            values.append(line.get(key))
        return [value for value in values if value is not None]

    return read


_read_finding_codes, _read_finding_names = _finding_reader("code"), _finding_reader("name")


def _read_findings(line: Line) -> Sequence[str]:
    return [*_read_finding_codes(line), *_read_finding_names(line)]


def _read_errors(line: Line) -> Sequence[int | str]:
    """Return the codes and names of errors. A decoded response without errors has 0 and NONE."""
    if errors := line.get("errors"):
        return [value for entry in errors for value in (entry["code"], entry["name"])]
    is_decoded_response = line.get("kind") == "response" and line.get("not_decoded") is None
    return (0, "NONE") if is_decoded_response else ()


def _read_direction(line: Line) -> str | None:
    kind = line.get("kind")
    direction: str | None = kind if kind in ("request", "response") else line.get("direction")
    return direction


_read_topic_bytes = _entries_reader("topics", "bytes")


def _read_bytes(line: Line) -> Sequence[int]:
    return _read_topic_bytes(line) if line.get("bytes") is None else [line["bytes"]]


# These functions import `dissectors` only when called: parsing a filter does not need it, and it has many modules.


@functools.cache
def _api_names() -> tuple[str, ...]:
    from dissectors import schemas

    return tuple(sorted(api.name for api in schemas.apis()))


@functools.cache
def _error_names() -> tuple[str, ...]:
    from dissectors.schemas import error_name

    return tuple(filter(None, takewhile(bool, map(error_name, count(-1)))))  # Kafka's error codes have no gaps


@functools.cache
def _rule_names() -> tuple[str, ...]:
    from dissectors.rules import rules

    return tuple(chain.from_iterable((rule.code, rule.name) for rule in rules()))


def _codecs() -> tuple[str, ...]:
    from dissectors.records.compression import CODECS

    return CODECS


def _known_words(*words: str) -> Callable[[], Sequence[str]]:
    return lambda: words


@functools.lru_cache(maxsize=1000)  # so that filters with the same text are equal
def _record_field(name: str) -> FilterField | None:
    """Return a field inside decoded records; None if the name does not denote one."""
    if (path := record_fields.parse_path(name)) is None:
        return None
    help_ = record_fields.PARTS[path[0]]
    return FilterField(name, Kind.RECORD, help_, record_fields.path_reader(*path), frozenset({"body"}), many=True)


#: From least to most severe.
SEVERITIES = ("info", "warning", "error")
_FLAG: dict[str, Any] = {"known": _known_words("true", "false"), "closed": True}

FIELDS: tuple[FilterField, ...] = (
    _line_field("kind", Kind.NAME, "kind of line", closed=True,
                known=_known_words("open", "request", "response", "finding", "gap", "stall", "close")),
    _line_field("ts", Kind.TIME, "when kproxy saw it (UTC)", "time"),
    _line_field("connection_id", Kind.TEXT, "the connection", "conn", "connection"),
    _multi_field("client", Kind.TEXT, "the client: its client id or its address",
                 lambda line: [value for key in ("client_id", "client") if (value := line.get(key)) is not None],
                 columns=("client_id", "client")),
    _line_field("client_id", Kind.TEXT, "the client id of the request, or of its connection (KIP-1313)"),
    _line_field("client_instance_id", Kind.TEXT, "the UUID of the client's process (request header v3, KIP-1313)"),
    _line_field("principal", Kind.TEXT, "who the client has logged in as over SASL, e.g. User:alice"),
    _line_field("server", Kind.TEXT, "address of the broker"),
    _line_field("listener", Kind.TEXT, "listener that accepted the connection"),
    _kind_field("open", "tls", Kind.FLAG, "whether the connection is TLS", **_FLAG),
    _line_field("sample", Kind.NUMBER, "share of connections that is inspected (--sample), on the open line"),
    _kind_field("open", "midstream", Kind.FLAG, "whether the connection was already open when kproxy first saw it",
                **_FLAG),
    FilterField("direction", Kind.NAME, "direction of the bytes", _read_direction, frozenset({"direction", "kind"}),
                known=_known_words("request", "response"), closed=True),
    _line_field("api", Kind.NAME, "name of the API", known=_api_names, closed=True),
    _line_field("api_key", Kind.NUMBER, "number of the API"),
    _line_field("api_version", Kind.NUMBER, "version of the API", "version"),
    _line_field("correlation_id", Kind.NUMBER, "correlation id", "correlation"),
    _line_field("size", Kind.SIZE, "size of the frame, including the length prefix"),
    _line_field("request_size", Kind.SIZE, "size of the request that this response answers"),
    _line_field("offset", Kind.NUMBER, "byte offset of the frame in its direction of the connection"),
    _line_field("request_offset", Kind.NUMBER, "byte offset of the request that this response answers"),
    _line_field("latency_us", Kind.DURATION, "from request to response; a bare number is microseconds", "latency"),
    _line_field("request_ts", Kind.TIME, "when kproxy saw the request of a response (UTC)", "request_time"),
    _line_field("throttle_time_ms", Kind.DURATION, "throttle time of a response; a bare number is milliseconds",
                "throttle", unit=1000),
    _line_field("acks", Kind.NUMBER, "acks of a Produce request"),
    _multi_field("topic", Kind.TEXT, "any topic in the frame", _entries_reader("topics", "topic"), "topics",
                 columns=("topics",)),
    _multi_field("topic_id", Kind.TEXT, "any topic id", _entries_reader("topics", "topic_id"), columns=("topics",)),
    _multi_field("partition", Kind.NUMBER, "any partition", _nested_entries_reader("topics", "partitions"),
                 "partitions", columns=("topics",)),
    _multi_field("records", Kind.COUNT, "records of any topic", _entries_reader("topics", "records"),
                 columns=("topics",)),
    _multi_field("batches", Kind.COUNT, "record batches of any topic", _entries_reader("topics", "batches"),
                 columns=("topics",)),
    _multi_field("compression", Kind.NAME, "any codec of the record data",
                 _nested_entries_reader("topics", "compression"), columns=("topics",), known=_codecs, closed=True),
    *(field for part in record_fields.PARTS if (field := _record_field(part))),
    _multi_field("lag", Kind.COUNT, "records left to read after a Fetch response, of any topic",
                 _entries_reader("topics", "lag"), columns=("topics",)),
    _multi_field("age", Kind.DURATION,
                 "age of the first record that a Fetch response has of any partition; a bare number is milliseconds",
                 lambda line: [age for age in _read_ages(line) if age is not None], columns=("topics",), unit=1000),
    _multi_field("base_offset", Kind.NUMBER,
                 "base offset of the first record batch that a response has of any partition: the "
                 "same in the Produce and the Fetch response are the two ends of a delivery",
                 lambda line: [offset for offset in _read_base_offsets(line) if offset is not None],
                 columns=("topics",)),
    _multi_field("bytes", Kind.SIZE, "record bytes of any topic, or the bytes of a gap", _read_bytes,
                 columns=("topics", "bytes")),
    _line_field("group_id", Kind.TEXT, "consumer group", "group"),
    _line_field("member_id", Kind.TEXT, "member of the group", "member"),
    _line_field("generation_id", Kind.NUMBER, "generation of the group, or epoch of the member", "generation"),
    _line_field("transactional_id", Kind.TEXT, "transactional id", "transaction"),
    _line_field("producer_id", Kind.NUMBER,
                "producer id of a request about a transaction, or that its response assigns"),
    _line_field("producer_epoch", Kind.NUMBER, "epoch of that producer id"),
    _line_field("committed", Kind.FLAG, "whether an EndTxn request commits its transaction", **_FLAG),
    _line_field("transaction_timeout_ms", Kind.DURATION,
                "transaction timeout that a producer asks for; a bare number is milliseconds", unit=1000),
    _multi_field("marker", Kind.TEXT, "any topic in which a marker of the frame ends a transaction",
                 _entries_reader("markers", "topic"), "markers", columns=("markers",)),
    _multi_field("held", Kind.TEXT, "any topic with a partition that an open transaction holds",
                 _entries_reader("held", "topic"), columns=("held",)),
    _multi_field("acquired", Kind.TEXT, "any topic of which a member of a share group got records",
                 _entries_reader("acquired", "topic"), columns=("acquired",)),
    _multi_field("acknowledged", Kind.TEXT, "any way in which a member of a share group acknowledged records: accept, "
                 "release, reject, renew or gap", _entries_reader("acknowledged", "type"), columns=("acknowledged",)),
    _multi_field("task", Kind.TEXT, "any active task that a StreamsGroupHeartbeat response assigns, e.g. 0_1",
                 _list_reader("tasks"), "tasks", columns=("tasks",)),
    _line_field("lock_ms", Kind.DURATION,
                "time for which a member of a share group has the records that it got; a bare "
                "number is milliseconds", unit=1000),
    _multi_field("software", Kind.TEXT, "the client software from ApiVersions: its name, or its name and version",
                 _read_software, columns=("software_name", "software_version")),
    _line_field("software_name", Kind.TEXT, "name of the client's software"),
    _line_field("software_version", Kind.TEXT, "version of the client's software"),
    _line_field("cluster_id", Kind.TEXT, "cluster id in a response to Metadata or DescribeCluster"),
    _multi_field("broker", Kind.TEXT, "any broker's address in a response to Metadata or DescribeCluster",
                 _list_reader("brokers"), "brokers", columns=("brokers",)),
    _multi_field("error", Kind.ERROR, "any error of a response, by code or name; 0 or NONE if it has none",
                 _read_errors, "errors", columns=("errors", "kind", "not_decoded"), known=_error_names, closed=True),
    _multi_field("finding", Kind.NAME, "any finding, by code or name", _read_findings, "findings", "code", "name",
                 "repeats", columns=("findings", "repeats", "kind", "code", "name"), known=_rule_names),
    _multi_field("severity", Kind.SEVERITY, "severity of any finding or stall; info < warning < error",
                 _finding_reader("severity"), columns=("findings", "repeats", "kind", "severity"),
                 known=_known_words(*SEVERITIES), closed=True),
    _multi_field("blame", Kind.NAME, "who any finding blames", _finding_reader("blame"),
                 columns=("findings", "kind", "blame"), known=_known_words("broker", "client", "network"), closed=True),
    _multi_field("message", Kind.TEXT, "message of any finding or stall", _finding_reader("message"),
                 columns=("findings", "kind", "message")),
    _multi_field("hint", Kind.TEXT, "hint of any finding or stall", _finding_reader("hint"),
                 columns=("findings", "kind", "hint")),
    _multi_field("expected", Kind.TEXT, "expected value of any finding", _finding_reader("expected"),
                 columns=("findings", "kind", "expected")),
    _multi_field("got", Kind.TEXT, "actual value of any finding", _finding_reader("got"),
                 columns=("findings", "kind", "got")),
    _line_field("stall", Kind.NAME, "kind of a stall, e.g. join-waits"),
    _line_field("since", Kind.TIME, "when a stall began (UTC)"),
    _line_field("until", Kind.TIME, "when a stall ended (UTC)"),
    _line_field("duration_us", Kind.DURATION, "how long a stall has lasted; a bare number is microseconds", "duration"),
    _line_field("error_name", Kind.TEXT, "error that a stall is about"),
    _line_field("times", Kind.NUMBER, "number of requests, responses or members in a stall"),
    _multi_field("waiting", Kind.TEXT, "any member that waits", _list_reader("waiting"), columns=("waiting",)),
    _multi_field("waiting_ids", Kind.TEXT, "member id of any member that waits", _list_reader("waiting_ids"),
                 columns=("waiting_ids",)),
    _multi_field("blamed", Kind.TEXT, "any member that blocks others or makes no progress itself",
                 _list_reader("blamed"), columns=("blamed",)),
    _multi_field("blamed_ids", Kind.TEXT, "member id of any blamed member", _list_reader("blamed_ids"),
                 columns=("blamed_ids",)),
    _line_field("note", Kind.TEXT, "a user's note on the line"),
    FilterField("marked", Kind.FLAG, "whether a user marked the line", lambda line: line.get("marked", False),
          frozenset({"marked"}), **_FLAG),
    _multi_field("rewritten", Kind.TEXT, "path of any value that the proxy changed in the frame, e.g. brokers[0].port",
                 _entries_reader("rewritten", "path"), columns=("rewritten",)),
    _line_field("not_decoded", Kind.TEXT, "why a frame's body was not decoded"),
    _line_field("reason", Kind.TEXT, "why the bytes of a gap were not inspected"),
    _kind_field("gap", "frames", Kind.COUNT, "frames of a gap"),
    _line_field("by", Kind.TEXT, "who closed the connection"),
    _line_field("how", Kind.TEXT, "how the connection was closed"),
    _kind_field("close", "requests", Kind.COUNT, "requests of a closed connection"),
    _kind_field("close", "responses", Kind.COUNT, "responses of a closed connection"),
    _kind_field("close", "request_bytes", Kind.SIZE, "request bytes of a closed connection"),
    _kind_field("close", "response_bytes", Kind.SIZE, "response bytes of a closed connection"),
    _kind_field("close", "unanswered", Kind.COUNT, "unanswered requests of a closed connection"),
)  # fmt: skip

#: Every name that a filter may use, including aliases, except for the fields inside `record_fields.PARTS`.
BY_NAME: Mapping[str, FilterField] = {name: field for field in FIELDS for name in (field.name, *field.aliases)}


def field_named(name: str) -> FilterField | None:
    """Return the field with this name; None if there is none."""
    return BY_NAME.get(name) or _record_field(name)
