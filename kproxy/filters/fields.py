"""The table of filter fields. Parser, completion and docs/filters.md use it."""

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
    it reads. `known` returns values to suggest; if `closed`, no others are valid. `unit` is the size of 1 in the trace:
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


def _one(name: str, kind: Kind, help_: str, *aliases: str, **options: Any) -> FilterField:
    """A field that is a key of the line."""
    return FilterField(name, kind, help_, lambda line: line.get(name), frozenset({name}), aliases, **options)


def _of(line_kind: str, name: str, kind: Kind, help_: str, **options: Any) -> FilterField:
    """A key of one kind of line. The trace omits 0 and false, so a missing key of such a line is 0 or false."""
    default = False if kind is Kind.FLAG else 0

    def read(line: Line) -> Any:
        value = line.get(name)
        return default if value is None and line.get("kind") == line_kind else value

    return FilterField(name, kind, help_, read, frozenset({name, "kind"}), **options)


def _many(
    name: str, kind: Kind, help_: str, read: Read, *aliases: str, columns: Sequence[str], **options: Any
) -> FilterField:
    return FilterField(name, kind, help_, read, frozenset(columns), aliases, many=True, **options)


def _list(name: str) -> Read:
    return lambda line: line.get(name) or ()


def _in(entries: str, key: str) -> Read:
    """The values of one key of the entries of an array."""
    return lambda line: [value for entry in line.get(entries) or () if (value := entry.get(key)) is not None]


def _all_in(entries: str, key: str) -> Read:
    """The values of one key of the entries of an array, where each entry has a list of them."""
    return lambda line: list(chain.from_iterable(entry.get(key) or () for entry in line.get(entries) or ()))


_ages = _all_in("topics", "ages_ms")
_base_offsets = _all_in("topics", "offsets")


def _software(line: Line) -> Sequence[str]:
    """A client's software: its name, and its name with its version."""
    name, version = line.get("software_name"), line.get("software_version")
    if name is None:
        return ()
    return (name,) if version is None else (name, f"{name} {version}")


def _of_finding(key: str) -> Read:
    """A key of the findings of a frame and of those it repeats, or of a finding or stall line."""

    def read(line: Line) -> Sequence[str]:
        values_found = [entry.get(key) for name in ("findings", "repeats") for entry in line.get(name) or ()]
        if line.get("kind") in ("finding", "stall"):
            values_found.append(line.get(key))
        return [value for value in values_found if value is not None]

    return read


_finding_codes, _finding_names = _of_finding("code"), _of_finding("name")


def _findings(line: Line) -> Sequence[str]:
    return [*_finding_codes(line), *_finding_names(line)]


def _errors(line: Line) -> Sequence[int | str]:
    """Codes and names of errors. A decoded response without errors has 0 and NONE."""
    if errors := line.get("errors"):
        return [value for entry in errors for value in (entry["code"], entry["name"])]
    is_decoded_response = line.get("kind") == "response" and line.get("not_decoded") is None
    return (0, "NONE") if is_decoded_response else ()


def _direction(line: Line) -> str | None:
    kind = line.get("kind")
    direction: str | None = kind if kind in ("request", "response") else line.get("direction")
    return direction


_topic_bytes = _in("topics", "bytes")


def _bytes(line: Line) -> Sequence[int]:
    return _topic_bytes(line) if line.get("bytes") is None else [line["bytes"]]


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
def _rules() -> tuple[str, ...]:
    from dissectors.rules import rules

    return tuple(chain.from_iterable((rule.code, rule.name) for rule in rules()))


def _codecs() -> tuple[str, ...]:
    from dissectors.records.compression import CODECS

    return CODECS


def _words(*words: str) -> Callable[[], Sequence[str]]:
    return lambda: words


@functools.lru_cache(maxsize=1000)  # so that filters with the same text are equal
def _of_records(name: str) -> FilterField | None:
    """A field inside decoded records; None if the name is not one."""
    if (path := record_fields.parse_path(name)) is None:
        return None
    help_ = record_fields.PARTS[path[0]]
    return FilterField(name, Kind.RECORD, help_, record_fields.reader(*path), frozenset({"body"}), many=True)


#: From least to most.
SEVERITIES = ("info", "warning", "error")
_FLAG: dict[str, Any] = {"known": _words("true", "false"), "closed": True}

FIELDS: tuple[FilterField, ...] = (
    _one("kind", Kind.NAME, "kind of line", closed=True,
         known=_words("open", "request", "response", "finding", "gap", "stall", "close")),
    _one("ts", Kind.TIME, "when kproxy saw it (UTC)", "time"),
    _one("connection_id", Kind.TEXT, "the connection", "conn", "connection"),
    _many("client", Kind.TEXT, "the client: its client id or its address",
          lambda line: [value for key in ("client_id", "client") if (value := line.get(key)) is not None],
          columns=("client_id", "client")),
    _one("client_id", Kind.TEXT, "the client id of the request, or of its connection (KIP-1313)"),
    _one("client_instance_id", Kind.TEXT, "the UUID of the client's process (request header v3, KIP-1313)"),
    _one("principal", Kind.TEXT, "who the client has logged in as over SASL, e.g. User:alice"),
    _one("server", Kind.TEXT, "address of the broker"),
    _one("listener", Kind.TEXT, "listener that accepted the connection"),
    _of("open", "tls", Kind.FLAG, "whether the connection is TLS", **_FLAG),
    _one("sample", Kind.NUMBER, "share of connections that is inspected (--sample), on the open line"),
    _of("open", "midstream", Kind.FLAG, "whether the connection was already open when kproxy first saw it", **_FLAG),
    FilterField("direction", Kind.NAME, "direction of the bytes", _direction, frozenset({"direction", "kind"}),
          known=_words("request", "response"), closed=True),
    _one("api", Kind.NAME, "name of the API", known=_api_names, closed=True),
    _one("api_key", Kind.NUMBER, "number of the API"),
    _one("api_version", Kind.NUMBER, "version of the API", "version"),
    _one("correlation_id", Kind.NUMBER, "correlation id", "correlation"),
    _one("size", Kind.SIZE, "size of the frame, including the length prefix"),
    _one("request_size", Kind.SIZE, "size of the request that this response answers"),
    _one("offset", Kind.NUMBER, "byte offset of the frame in its direction of the connection"),
    _one("request_offset", Kind.NUMBER, "byte offset of the request that this response answers"),
    _one("latency_us", Kind.DURATION, "from request to response; a bare number is microseconds", "latency"),
    _one("request_ts", Kind.TIME, "when kproxy saw the request of a response (UTC)", "request_time"),
    _one("throttle_time_ms", Kind.DURATION, "throttle time of a response; a bare number is milliseconds", "throttle",
         unit=1000),
    _one("acks", Kind.NUMBER, "acks of a Produce request"),
    _many("topic", Kind.TEXT, "any topic in the frame", _in("topics", "topic"), "topics", columns=("topics",)),
    _many("topic_id", Kind.TEXT, "any topic id", _in("topics", "topic_id"), columns=("topics",)),
    _many("partition", Kind.NUMBER, "any partition", _all_in("topics", "partitions"), "partitions",
          columns=("topics",)),
    _many("records", Kind.COUNT, "records of any topic", _in("topics", "records"), columns=("topics",)),
    _many("batches", Kind.COUNT, "record batches of any topic", _in("topics", "batches"), columns=("topics",)),
    _many("compression", Kind.NAME, "any codec of the record data", _all_in("topics", "compression"),
          columns=("topics",), known=_codecs, closed=True),
    *(field for part in record_fields.PARTS if (field := _of_records(part))),
    _many("lag", Kind.COUNT, "records left to read after a Fetch response, of any topic", _in("topics", "lag"),
          columns=("topics",)),
    _many("age", Kind.DURATION, "age of the first record that a Fetch response has of any partition; a bare number is "
          "milliseconds", lambda line: [age for age in _ages(line) if age is not None], columns=("topics",), unit=1000),
    _many("base_offset", Kind.NUMBER, "base offset of the first record batch that a response has of any partition: the "
          "same in the Produce and the Fetch response are the two ends of a delivery",
          lambda line: [offset for offset in _base_offsets(line) if offset is not None], columns=("topics",)),
    _many("bytes", Kind.SIZE, "record bytes of any topic, or the bytes of a gap", _bytes,
          columns=("topics", "bytes")),
    _one("group_id", Kind.TEXT, "consumer group", "group"),
    _one("member_id", Kind.TEXT, "member of the group", "member"),
    _one("generation_id", Kind.NUMBER, "generation of the group, or epoch of the member", "generation"),
    _one("transactional_id", Kind.TEXT, "transactional id", "transaction"),
    _one("producer_id", Kind.NUMBER, "producer id of a request about a transaction, or that its response assigns"),
    _one("producer_epoch", Kind.NUMBER, "epoch of that producer id"),
    _one("committed", Kind.FLAG, "whether an EndTxn request commits its transaction", **_FLAG),
    _one("transaction_timeout_ms", Kind.DURATION, "transaction timeout that a producer asks for; a bare number is "
         "milliseconds", unit=1000),
    _many("marker", Kind.TEXT, "any topic in which a marker of the frame ends a transaction", _in("markers", "topic"),
          "markers", columns=("markers",)),
    _many("held", Kind.TEXT, "any topic with a partition that an open transaction holds", _in("held", "topic"),
          columns=("held",)),
    _many("acquired", Kind.TEXT, "any topic of which a member of a share group got records", _in("acquired", "topic"),
          columns=("acquired",)),
    _many("acknowledged", Kind.TEXT, "any way in which a member of a share group acknowledged records: accept, "
          "release, reject, renew or gap", _in("acknowledged", "type"), columns=("acknowledged",)),
    _many("task", Kind.TEXT, "any active task that a StreamsGroupHeartbeat response assigns, e.g. 0_1", _list("tasks"),
          "tasks", columns=("tasks",)),
    _one("lock_ms", Kind.DURATION, "time for which a member of a share group has the records that it got; a bare "
         "number is milliseconds", unit=1000),
    _many("software", Kind.TEXT, "the client software from ApiVersions: its name, or its name and version", _software,
          columns=("software_name", "software_version")),
    _one("software_name", Kind.TEXT, "name of the client's software"),
    _one("software_version", Kind.TEXT, "version of the client's software"),
    _one("cluster_id", Kind.TEXT, "cluster id in a response to Metadata or DescribeCluster"),
    _many("broker", Kind.TEXT, "any broker's address in a response to Metadata or DescribeCluster",
          _list("brokers"), "brokers", columns=("brokers",)),
    _many("error", Kind.ERROR, "any error of a response, by code or name; 0 or NONE if it has none", _errors, "errors",
          columns=("errors", "kind", "not_decoded"), known=_error_names, closed=True),
    _many("finding", Kind.NAME, "any finding, by code or name", _findings, "findings", "code", "name", "repeats",
          columns=("findings", "repeats", "kind", "code", "name"), known=_rules),
    _many("severity", Kind.SEVERITY, "severity of any finding or stall; info < warning < error",
          _of_finding("severity"), columns=("findings", "repeats", "kind", "severity"), known=_words(*SEVERITIES),
          closed=True),
    _many("blame", Kind.NAME, "who any finding blames", _of_finding("blame"), columns=("findings", "kind", "blame"),
          known=_words("broker", "client", "network"), closed=True),
    _many("message", Kind.TEXT, "message of any finding or stall", _of_finding("message"),
          columns=("findings", "kind", "message")),
    _many("hint", Kind.TEXT, "hint of any finding or stall", _of_finding("hint"),
          columns=("findings", "kind", "hint")),
    _many("expected", Kind.TEXT, "expected value of any finding", _of_finding("expected"),
          columns=("findings", "kind", "expected")),
    _many("got", Kind.TEXT, "actual value of any finding", _of_finding("got"), columns=("findings", "kind", "got")),
    _one("stall", Kind.NAME, "kind of a stall, e.g. join-waits"),
    _one("since", Kind.TIME, "when a stall began (UTC)"),
    _one("until", Kind.TIME, "when a stall ended (UTC)"),
    _one("duration_us", Kind.DURATION, "how long a stall has lasted; a bare number is microseconds", "duration"),
    _one("error_name", Kind.TEXT, "error that a stall is about"),
    _one("times", Kind.NUMBER, "number of requests, responses or members in a stall"),
    _many("waiting", Kind.TEXT, "any member that waits", _list("waiting"), columns=("waiting",)),
    _many("waiting_ids", Kind.TEXT, "member id of any member that waits", _list("waiting_ids"),
          columns=("waiting_ids",)),
    _many("blamed", Kind.TEXT, "any member that blocks others or makes no progress itself", _list("blamed"),
          columns=("blamed",)),
    _many("blamed_ids", Kind.TEXT, "member id of any blamed member", _list("blamed_ids"), columns=("blamed_ids",)),
    _one("note", Kind.TEXT, "a user's note on the line"),
    FilterField("marked", Kind.FLAG, "whether a user marked the line", lambda line: line.get("marked", False),
          frozenset({"marked"}), **_FLAG),
    _many("rewritten", Kind.TEXT, "path of any value that the proxy changed in the frame, e.g. brokers[0].port",
          _in("rewritten", "path"), columns=("rewritten",)),
    _one("not_decoded", Kind.TEXT, "why a frame's body was not decoded"),
    _one("reason", Kind.TEXT, "why the bytes of a gap were not inspected"),
    _of("gap", "frames", Kind.COUNT, "frames of a gap"),
    _one("by", Kind.TEXT, "who closed the connection"),
    _one("how", Kind.TEXT, "how the connection was closed"),
    _of("close", "requests", Kind.COUNT, "requests of a closed connection"),
    _of("close", "responses", Kind.COUNT, "responses of a closed connection"),
    _of("close", "request_bytes", Kind.SIZE, "request bytes of a closed connection"),
    _of("close", "response_bytes", Kind.SIZE, "response bytes of a closed connection"),
    _of("close", "unanswered", Kind.COUNT, "unanswered requests of a closed connection"),
)  # fmt: skip

#: Every name that a filter may use, aliases too, but for the fields below `record_fields.PARTS`.
BY_NAME: Mapping[str, FilterField] = {name: field for field in FIELDS for name in (field.name, *field.aliases)}


def field_named(name: str) -> FilterField | None:
    """The field of this name; None if there is none."""
    return BY_NAME.get(name) or _of_records(name)
