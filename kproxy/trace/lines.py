"""The lines of a trace, format 1. JSON Schema, reader and writer are derived from these definitions.

Names are an interface: columns are only added, never changed. A missing column is the same as null; times are
RFC 3339 UTC with microseconds, `_us` are microseconds, sizes are bytes with the length prefix.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

FORMAT = 1


class Detail(StrEnum):
    """How much of a frame its line has: facts; also the decoded body; also the bytes."""

    SUMMARY = "summary"
    FULL = "full"
    RAW = "raw"


Timestamp = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]


class TopicEntry(Struct, omit_defaults=True):
    """A topic in the frame. `topic` is absent if only its id is known.

    `bytes`, `records` and `batches` count the record data of the topic in this frame and, for a response, in its
    request; `partition_bytes` are the bytes of each of `partitions`, `compression` the codecs (none, gzip, snappy, lz4,
    zstd). `lag` of a Fetch response: records between the last one read and the high watermark, over its partitions.

    Of each of `partitions` in a response: `offsets` has the base offset of the first record batch, as the broker has
    assigned it (Produce) or returns it (Fetch); `ages_ms` the time from the timestamp of its first record to a Fetch
    response, by the producer's clock or, with `append_time`, by the broker's. Null if there is no batch of format 2.
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
    offsets: list[int | None] = []
    ages_ms: list[int | None] = []
    append_time: bool = False


class MarkerEntry(Struct, omit_defaults=True):
    """A marker, which ends a transaction in a partition. `topic` is its id as long as its name is unknown.

    `offset` is that of the marker in the partition; a WriteTxnMarkers request has none.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    committed: bool
    offset: int | None = None


class HeldEntry(Struct, omit_defaults=True):
    """A partition whose last stable offset is below its high watermark, because a transaction is open.

    `producer_id` and `producer_epoch` are those of the batch at that offset, if the response has it.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    producer_id: int | None = None
    producer_epoch: int | None = None


class AcquiredEntry(Struct):
    """Records `first` to `last` of a partition that a member of a share group got, for the `deliveries`-th time."""

    topic: str
    partition: int
    first: int
    last: int
    deliveries: int


class AcknowledgedEntry(Struct):
    """Records `first` to `last` of a partition that a member of a share group has acknowledged, successfully.

    `type` is gap, accept, release, reject or renew.
    """

    topic: str
    partition: int
    first: int
    last: int
    type: str


class RepeatEntry(Struct):
    """The number of findings of a connection that repeat a root cause already reported."""

    code: str
    name: str
    count: int


class ErrorEntry(Struct):
    """An error code other than 0, e.g. ``responses[0].partitions[2].error_code``."""

    path: str
    code: int
    name: str


class RewrittenEntry(Struct, rename={"was": "from", "now": "to"}):
    """A value that the proxy changed, e.g. ``brokers[0].port``, as text; null stays null."""

    path: str
    was: str | None
    now: str | None


class EditEntry(Struct, omit_defaults=True):
    """A difference from Kafka's layout; `then` is a further one. docs/edits.md lists the kinds."""

    kind: str
    field: str
    detail: dict[str, Any] = {}
    confidence: float | None = None
    then: EditEntry | None = None


class ExcerptEntry(Struct):
    """Bytes of a frame from offset `start` on, as hex. Secrets are zeroed."""

    start: int
    hex: str


class FindingEntry(Struct, omit_defaults=True):
    """A problem in the frame. `span` is half-open and counts from the length prefix.

    If the layout differs from Kafka's, `edit` is the difference, `confidence` (0 to 1) its probability, `also` edits
    that lead to the same bytes, and `rivals` other edits that fit, with their confidence. `excerpt` has at most 48
    bytes around the span; it needs `--detail full`.
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


class RepeatedFinding(Struct, omit_defaults=True):
    """Findings in this frame (`count`) that are not listed again, because their root cause was reported before.

    `offset` and `direction` are those of the frame that has the finding, on the connection `connection_id`; absent, the
    connection is that of this frame, the direction is that of this frame, and the finding is a line of its own.
    """

    code: str
    severity: str
    connection_id: str | None = None
    direction: str | None = None
    offset: int | None = None
    count: int = 1


class _Line(Struct, omit_defaults=True, tag_field="kind", kw_only=True):
    """`note` and `marked` are set by a user."""

    v: Annotated[int, Meta(ge=1)]
    ts: Timestamp
    connection_id: str
    note: str | None = None
    marked: bool = False

    @property
    def kind(self) -> str:
        """The kind of line, as in the trace: ``request``, ``response``, ``finding``, ..."""
        return str(self.__struct_config__.tag)


class OpenLine(_Line, tag="open", kw_only=True):
    """A connection was accepted, or first observed; again after a restart of the inspector.

    `sample` is the share of connections that is inspected (`--sample`), from above 0 to 1; absent if all are.
    """

    client: str
    server: str
    listener: str | None = None
    tls: bool = False
    midstream: bool = False
    sample: float | None = None


class _FrameLine(_Line, kw_only=True):
    client: str
    server: str
    api: str | None = None
    api_key: int | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    client_instance_id: str | None = None
    principal: str | None = None
    size: int
    offset: int
    topics: list[TopicEntry] = []
    group_id: str | None = None
    member_id: str | None = None
    generation_id: int | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    committed: bool | None = None
    transaction_timeout_ms: int | None = None
    markers: list[MarkerEntry] = []
    software_name: str | None = None
    software_version: str | None = None
    findings: list[FindingEntry] = []
    repeats: list[RepeatedFinding] = []
    rewritten: list[RewrittenEntry] = []
    not_decoded: str | None = None
    body: dict[str, Any] | None = None
    frame: str | None = None


class RequestLine(_FrameLine, tag="request", kw_only=True):
    """A request frame. `not_decoded` is why its body was not decoded; `body` needs `--detail full`, `frame` raw.

    `principal` is who the client has logged in as over SASL (``User:alice``), from the response that accepts it on.
    `client_id` is that of the connection's first request if a later one leaves it out, `client_instance_id` the UUID of
    the client's process from the first request header v3 of the connection on (KIP-1313).
    `generation_id` is the group's generation, or the member's epoch (KIP-848, KIP-932). `software_name` and
    `software_version` are the client's, on ApiVersions from version 3 on (KIP-511).

    `producer_id` and `producer_epoch` are on requests with a `transactional_id`, `committed` on EndTxn (whether to
    commit), `transaction_timeout_ms` on InitProducerId, `markers` on WriteTxnMarkers and on responses to Fetch.
    """

    acks: int | None = None


class ResponseLine(_FrameLine, tag="response", kw_only=True):
    """A response frame with facts of its request; `api` is absent if the request is unknown.

    `request_offset` is the `offset` of that request, and pairs the two lines of an exchange.
    `cluster_id` and `brokers` (HOST:PORT, as advertised) are on responses to Metadata and DescribeCluster.
    `producer_id` and `producer_epoch` are those that it assigns, or else those of the request. `held` is on Fetch,
    `acquired`, `acknowledged` and `lock_ms`, for how long records are acquired, on ShareFetch and ShareAcknowledge.
    `tasks` are the active tasks that a StreamsGroupHeartbeat response assigns, by Kafka's names (``0_1``).
    """

    request_offset: int | None = None
    request_ts: Timestamp | None = None
    latency_us: int | None = None
    request_size: int | None = None
    errors: list[ErrorEntry] = []
    throttle_time_ms: int | None = None
    cluster_id: str | None = None
    brokers: list[str] = []
    held: list[HeldEntry] = []
    acquired: list[AcquiredEntry] = []
    acknowledged: list[AcknowledgedEntry] = []
    lock_ms: int | None = None
    tasks: list[str] = []


class FindingLine(_Line, tag="finding", kw_only=True):
    """A problem that does not belong to a single frame. `group_id` is the consumer group that it is about.

    If it is about one request, `api`, `api_version`, `correlation_id` and `offset` are those of the request.
    """

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
    api: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    principal: str | None = None
    group_id: str | None = None


class GapLine(_Line, tag="gap", kw_only=True):
    """Bytes of a connection that were not inspected."""

    direction: str
    bytes: int
    frames: int = 0
    reason: str


class StallLine(_Line, tag="stall", kw_only=True):
    """A consumer group, or a member of it, that makes no progress.

    While it lasts, it has no `until`. All lines of a stall have the same `group_id`, `stall`, `since`, `connection_id`
    and `request_offset`, and the last one counts. `duration_us` ends at `until`, else when the stall was last observed.
    No frame may show the end (a session that expires, a member that is no longer observed): `until` is then the last
    time at which it was certain to last.
    `request_offset` is the offset of the request with which it began, `server` the broker that the request was sent to.
    `error_name` is the error of the responses, `times` their number. `waiting` and `blamed` have short names of
    members, `waiting_ids` and `blamed_ids` their member ids (the connection, while a member has no id).
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
    """A connection ended: closed by client, server or proxy, how (fin, reset, ...), and its totals."""

    client: str
    server: str
    principal: str | None = None
    by: str | None = None
    how: str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    repeated: list[RepeatEntry] = []


#: For `isinstance` on each line: `A | B` would create a new union each time.
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
