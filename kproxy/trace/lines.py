"""The trace, format 1: what a line holds. JSON Schema, reader and writer all come from these definitions.

Names are an interface: columns are only ever added, and may be absent. Absent is the same as null; times are
RFC 3339 UTC with microseconds, `_us` are microseconds, sizes are bytes with the length prefix.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

FORMAT = 1


class Detail(StrEnum):
    """How much of a frame its line holds: the facts, the decoded body too, or the bytes as well."""

    SUMMARY = "summary"
    FULL = "full"
    RAW = "raw"


Timestamp = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]


class TopicEntry(Struct, omit_defaults=True):
    """A topic that the frame names; `topic` is absent while only its id is known.

    `bytes`, `records` and `batches` count the record data of the topic in this frame, for a response also that of its
    request; `partition_bytes` are the bytes of each of `partitions`, `compression` the codecs (none, gzip, snappy, lz4,
    zstd). `lag` of a Fetch response: records between what was read and the high watermark, over its partitions.
    """

    topic: str | None = None
    topic_id: str | None = None
    partitions: list[int] = []
    bytes: int | None = None
    records: int | None = None
    batches: int | None = None
    compression: list[str] = []
    partition_bytes: list[int] = []
    lag: int | None = None


class RepeatEntry(Struct):
    """Findings of a connection that repeat what was told before: they are counted, not listed."""

    code: str
    name: str
    count: int


class ErrorEntry(Struct):
    """An error code other than 0, e.g. ``responses[0].partitions[2].error_code``."""

    path: str
    code: int
    name: str


class EditEntry(Struct, omit_defaults=True):
    """A way to write a layout wrong; `then` is another one on top of it. docs/edits.md has the kinds."""

    kind: str
    field: str
    detail: dict[str, Any] = {}
    confidence: float | None = None
    then: EditEntry | None = None


class ExcerptEntry(Struct):
    """Bytes of a frame from `start` on, as hex; those of secrets are zero."""

    start: int
    hex: str


class FindingEntry(Struct, omit_defaults=True):
    """Something wrong with the frame; `span` is half-open and counts from its length prefix.

    Where the layout departs, `edit` is how, `confidence` (0 to 1) how sure that is, `also` other names of the same
    bytes, `rivals` other edits that fit, each with its confidence. `excerpt` has the bytes around the span, 48 at most;
    it needs `--detail full`.
    """

    code: str
    name: str
    severity: str
    message: str
    blame: str | None = None
    path: str | None = None
    span: tuple[int, int] | None = None
    hint: str | None = None
    expected: str | None = None
    got: str | None = None
    edit: EditEntry | None = None
    confidence: float | None = None
    also: list[EditEntry] = []
    rivals: list[EditEntry] = []
    excerpt: ExcerptEntry | None = None


class _Line(Struct, omit_defaults=True, tag_field="kind", kw_only=True):
    """`note` and `marked` are what somebody who looked at it wanted to keep."""

    v: Annotated[int, Meta(ge=1)]
    ts: Timestamp
    connection_id: str
    note: str | None = None
    marked: bool = False


class OpenLine(_Line, tag="open", kw_only=True):
    """A connection was accepted, or first seen."""

    client: str
    server: str
    listener: str | None = None
    tls: bool = False
    midstream: bool = False


class _FrameLine(_Line, kw_only=True):
    client: str
    server: str
    api: str | None = None
    api_key: int | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    size: int
    offset: int
    topics: list[TopicEntry] = []
    group_id: str | None = None
    member_id: str | None = None
    generation_id: int | None = None
    transactional_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None
    findings: list[FindingEntry] = []
    not_decoded: str | None = None
    body: dict[str, Any] | None = None
    frame: str | None = None


class RequestLine(_FrameLine, tag="request", kw_only=True):
    """A request frame. `not_decoded` says why its body was left alone; `body` needs `--detail full`, `frame` raw.

    `generation_id` is the group's generation, or the member's epoch (KIP-848, KIP-932). `software_name` and
    `software_version` are the client's, on ApiVersions from version 3 on (KIP-511).
    """

    acks: int | None = None


class ResponseLine(_FrameLine, tag="response", kw_only=True):
    """A response frame with what an analysis needs of its request; `api` is absent if nobody asked.

    `request_offset` is the `offset` of that request in the client's direction: the two lines of one exchange.
    `cluster_id` and `brokers` (HOST:PORT, as advertised) are on responses to Metadata and DescribeCluster.
    """

    request_offset: int | None = None
    request_ts: Timestamp | None = None
    latency_us: int | None = None
    request_size: int | None = None
    errors: list[ErrorEntry] = []
    throttle_time_ms: int | None = None
    cluster_id: str | None = None
    brokers: list[str] = []


class FindingLine(_Line, tag="finding", kw_only=True):
    """Something wrong that is not tied to one frame."""

    code: str
    name: str
    severity: str
    message: str
    blame: str | None = None
    hint: str | None = None
    expected: str | None = None
    got: str | None = None
    direction: str | None = None
    offset: int | None = None
    correlation_id: int | None = None


class GapLine(_Line, tag="gap", kw_only=True):
    """Bytes of a connection that were not inspected."""

    direction: str
    bytes: int
    frames: int = 0
    reason: str


class StallLine(_Line, tag="stall", kw_only=True):
    """A consumer group, or a member of it, that makes no progress.

    While it lasts it has no `until`, and further lines have the same `group_id`, `stall`, `since`, `connection_id` and
    `request_offset`: the last of them counts. `duration_us` is up to `until`, else up to when it was last seen.
    `request_offset` is the offset of the request with which it began, `server` the broker that it was sent to.
    `error_name` is what was answered, `times` how often. `waiting` and `blamed` name members as people know them, with
    the same members' ids in `waiting_ids` and `blamed_ids` (the connection, while a member has no id).
    """

    server: str | None = None
    group_id: str
    stall: str
    severity: str
    since: Timestamp
    until: Timestamp | None = None
    duration_us: int
    message: str
    hint: str
    request_offset: int | None = None
    error_name: str | None = None
    times: int = 1
    waiting: list[str] = []
    waiting_ids: list[str] = []
    blamed: list[str] = []
    blamed_ids: list[str] = []


class CloseLine(_Line, tag="close", kw_only=True):
    """A connection ended: by whom (client, server, proxy), how (fin, reset, ...), and what was left open."""

    client: str
    server: str
    by: str | None = None
    how: str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    repeated: list[RepeatEntry] = []


#: For `isinstance` on each line: a union is made anew each time that it is evaluated.
FRAME_LINES: Final = (RequestLine, ResponseLine)

Line = OpenLine | RequestLine | ResponseLine | FindingLine | GapLine | StallLine | CloseLine

KINDS: dict[str, type[_Line]] = {
    "open": OpenLine,
    "request": RequestLine,
    "response": ResponseLine,
    "finding": FindingLine,
    "gap": GapLine,
    "stall": StallLine,
    "close": CloseLine,
}
