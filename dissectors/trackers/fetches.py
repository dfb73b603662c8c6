"""Fetches: the offset at which a connection fetches each partition, across fetch sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import BytesSkipped, RequestReceived, ResponseReceived
from dissectors.limits import Limit
from dissectors.messages.message import Message
from dissectors.messages.topic_records import PartitionRecords, fetch_offsets, first_batch_from, topic_records
from dissectors.messages.transaction_facts import partition_ends
from dissectors.records.control import are_all_control_batches
from dissectors.records.formats import CONTROL
from dissectors.trackers import tracker
from dissectors.trackers.partitions import RefusedPartition, TopicPartition, refusals, topic_name_or_id
from dissectors.trackers.stable_offsets import StableOffsets
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key

#: Sessions per connection (clients have one), and partitions per session; larger sessions are not tracked.
_MAX_SESSIONS = 2
_MAX_PARTITIONS = 20_000
_MAX_CLIENTS = 10_000

#: Larger responses also contain other records: a control batch has about 80 bytes.
_MAX_CONTROL_SIZE = 4096

#: An end offset for layouts that have none.
_NO_LIMIT = 1 << 63

#: The batches of a connection's first responses are compared, then those of two consecutive responses out of every 16
#: (the mask plus 1): a consumer that is stuck stays stuck. Once a batch is repeated, all responses are compared.
_FIRST_COMPARED = 32
_COMPARED_MASK = 15

#: A broker waits for records. An empty response after less than a quarter of max_wait_ms (here in ns per ms) is early,
#: unless max_wait_ms is below `_MIN_WAIT_MS`. `EARLY_RESPONSES` in a row are a problem.
_EARLY_NS_PER_MS = 250_000
_MIN_WAIT_MS = 50
EARLY_RESPONSES = 20
#: The number of consecutive empty responses, to a consumer that does not let the broker wait, that are judged together.
BUSY_POLLS = Limit("responses", 200, "responses", "so many Fetch responses in a row are empty", 2)
#: The number of consecutive responses with records that the broker held back as long as allowed, to get more bytes.
FULL_WAITS = Limit("responses", 20, "responses", "the broker has waited its full time for so many in a row", 2)
#: If the broker waited its full time, the response took at least this share of max_wait_ms (here in ns per ms).
_FULL_WAIT_NS_PER_MS = 950_000

#: A consumer that sends no request for this long (ns) after a response does something else.
_PAUSE = 1_000_000_000

_READ_COMMITTED = 1
_IRREGULAR, _REFUSED = FrameFlags.IRREGULAR.value, FrameFlags.REFUSED.value
_STARVED, _REPEATED, _EMPTY = FrameFlags.STARVED.value, FrameFlags.REPEATED.value, FrameFlags.EMPTY.value
_HELD = FrameFlags.HELD.value


def requested_partitions(
    body: Mapping[str, Any],
) -> Iterator[tuple[TopicPartition, Mapping[str, Any], tuple[str | int, ...]]]:
    """Yield the partitions in a Fetch request, each with its values and path."""
    for i, topic in enumerate(body.get("topics") or ()):
        name = topic_name_or_id(topic)
        for j, partition in enumerate(topic.get("partitions") or ()):
            yield (name, partition.get("partition", 0)), partition, ("topics", i, "partitions", j)


def is_follower(request_body: Mapping[str, Any]) -> bool:
    """Whether the request comes from a replicating broker, not a consumer."""
    state: Mapping[str, Any] = request_body.get("replica_state") or request_body
    return bool(state.get("replica_id", -1) != -1)


def end_field(request_body: Mapping[str, Any]) -> str:
    """Return the name of the response field that contains the end offset for this reader."""
    return "last_stable_offset" if request_body.get("isolation_level") == _READ_COMMITTED else "high_watermark"


def is_read_committed(request_body: Mapping[str, Any]) -> bool:
    """Whether the consumer reads committed transactions only."""
    return bool(request_body.get("isolation_level") == _READ_COMMITTED)


def is_held(row: Mapping[str, Any]) -> bool:
    """Whether a partition in a response has no records for a read_committed consumer, but has unstable records."""
    last_stable_offset = row.get("last_stable_offset", -1)
    return (
        bool(0 <= last_stable_offset < row.get("high_watermark", -1))
        and not row.get("records")
        and not row.get("error_code")
    )


def held_partitions(body: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
    """Yield the partitions in a response whose records an open transaction holds back, each with its values."""
    for topic in body.get("responses") or ():
        for partition in topic.get("partitions") or ():
            if is_held(partition):
                yield (topic_name_or_id(topic), partition.get("partition_index", 0)), partition


def opens_session(request_body: Mapping[str, Any]) -> bool:
    """Whether a request opens a new session."""
    return request_body.get("session_epoch") == 0 == request_body.get("session_id")


class FetchCount:
    """The number of Fetch responses with records that a client got."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class FetchesWithRecords:
    """The number of Fetch responses with records, by client (host, client id)."""

    def __init__(self) -> None:
        self._counts: BoundedDict[tuple[str, str | None], FetchCount] = BoundedDict(_MAX_CLIENTS)

    def of(self, client: tuple[str, str | None]) -> FetchCount:
        """Return the counter of a client; later responses update it."""
        return self._counts.touch(client, FetchCount)


class _Session:
    """The fetch offsets and last known end offsets of partitions. `behind` are the partitions with more records."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.behind: set[TopicPartition] = set()

    def set_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets.update(offsets)
        self._update_behind(offsets)

    def set_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        self.ends.update(ends)
        self._update_behind(ends)

    def forget(self, topic_partition: TopicPartition) -> None:
        self.offsets.pop(topic_partition, None)
        self.ends.pop(topic_partition, None)
        self.behind.discard(topic_partition)

    def _update_behind(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            offset = self.offsets.get(topic_partition)
            if offset is not None and self.ends.get(topic_partition, -1) > offset:
                self.behind.add(topic_partition)
            else:
                self.behind.discard(topic_partition)


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped),
    apis=("Fetch",),
    broken=True,
    per="connection",
    flags=FrameFlags.STARVED | FrameFlags.REPEATED | FrameFlags.EMPTY | FrameFlags.HELD,
    keeps=(FetchesWithRecords, StableOffsets),
)
class Fetches:
    """The fetches of one connection.

    In a session (version 7 and later), a request contains only the partitions whose offset changed, and a response only
    the partitions with something new. A request long after `answered_at` is flagged as irregular.

    Attributes:
        is_empty: The latest response has no records.
        refused: The partitions with an error in the latest response.
        unused_sessions: The number of consecutive sessions that were opened and not used.
        early: The number of consecutive empty responses for which the broker did not wait, since `early_since` (ns).
        polls: The number of consecutive empty responses to requests that let the broker wait less than 50 ms; the
            latest `BUSY_POLLS` of them began at `polls_since` (ns).
        answered_at: When the latest response arrived (ns).
        full_waits: The number of consecutive responses with records for which the broker waited its full time because
            they have fewer bytes than `fetch.min.bytes`.

    Source: KIP-227.
    """

    def __init__(self) -> None:
        self.is_empty = False
        self.refused: list[RefusedPartition] = []
        self.unused_sessions = 0
        self.early = self.early_since = self.answered_at = 0
        self.polls = self.polls_since = self.full_waits = 0
        self._sessions: BoundedDict[int, _Session] = BoundedDict(_MAX_SESSIONS)
        self._responses_with_records = 0
        self._client_count: FetchCount | None = None
        self._repeats = False
        #: Offsets and checksums of the batches in the latest response that was compared, the first of each partition.
        self._batches: frozenset[tuple[int, int]] = frozenset()

    def observe(self, event: RequestReceived | ResponseReceived | BytesSkipped, connection: ConnectionState) -> None:
        """Track a request's offsets, and examine a response once for all rules."""
        if isinstance(event, ResponseReceived):
            self._observe_response(event, connection)
            return
        if isinstance(event, RequestReceived) and event.at - self.answered_at > _PAUSE and self.answered_at:
            connection.flags |= _IRREGULAR
        if isinstance(event, BytesSkipped) or event.damaged or not event.message.well_formed:
            self._sessions.clear()
        elif event.message.body.get("session_epoch", -1) > 0:
            self._update_session(event.message)
        elif self.unused_sessions and opens_session(event.message.body):
            connection.flags |= _IRREGULAR

    def offsets(self, request: RequestReceived | None) -> Mapping[TopicPartition, int]:
        """Return the offset of every partition that a request fetches; empty if it or its session is unknown."""
        if request is None or not request.message.well_formed:
            return {}
        request_body = request.message.body
        if request_body.get("session_epoch", -1) > 0:
            session = self._sessions.get(request_body.get("session_id", 0))
            return session.offsets if session else {}
        return fetch_offsets(request.message)

    def behind(self, request: RequestReceived, body: Mapping[str, Any]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the partitions of a request or its session that have more records: (fetch offset, end offset)."""
        request_body = request.message.body
        if request_body.get("session_epoch", -1) > 0:
            session = self._sessions.get(request_body.get("session_id", 0))
            if session is None or not session.behind:
                return {}
            return {
                topic_partition: (session.offsets[topic_partition], session.ends[topic_partition])
                for topic_partition in session.behind
            }
        if _is_at_end(request_body, body):
            return {}
        offsets = self.offsets(request)
        return {
            topic_partition: (offsets[topic_partition], end)
            for topic_partition, end in _partition_ends(request_body, body).items()
            if topic_partition in offsets and end > offsets[topic_partition]
        }

    def waits_at(self, topic_partition: TopicPartition, end: int) -> bool:
        """Whether a session fetches at this end offset, and as far as it knows the partition still ends there."""
        return any(
            session.offsets.get(topic_partition) == end == session.ends.get(topic_partition)
            for session in self._sessions.values()
        )

    def _update_session(self, request: Message) -> None:
        body = request.body
        session_id = body.get("session_id", 0)
        session = self._sessions.get(session_id)
        if session is None:
            return
        for topic in body.get("forgotten_topics_data") or ():
            name = topic_name_or_id(topic)
            for partition in topic.get("partitions") or ():
                session.forget((name, partition))
        if body.get("topics"):
            session.set_offsets(fetch_offsets(request))
        if len(session.offsets) > _MAX_PARTITIONS:
            del self._sessions[session_id]

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        self.is_empty, self.refused, self.answered_at = False, [], event.at
        message, request_body = event.message, event.request_body
        if message is None or event.damaged or not message.well_formed:
            return
        body = message.body
        topics = body.get("responses")
        self.is_empty = not topics or not _has_records(message)
        if connection.flags & _REFUSED:
            self.refused = refusals(body, "partitions", "partition_index")
        if request_body is None or event.request is None:
            return
        epoch = request_body.get("session_epoch", -1)
        if epoch <= 0 and not topics and request_body.get("topics"):
            connection.flags |= _EMPTY  # only a fetch of a session may leave out partitions
        if epoch >= 0:
            session_id = body.get("session_id")
            self.unused_sessions = self.unused_sessions + 1 if session_id and opens_session(request_body) else 0
            if epoch == 0 and session_id:
                self._open_session(session_id, event.request.message, body)
            elif topics and (session := self._sessions.get(request_body.get("session_id", 0))) is not None:
                session.set_ends(_partition_ends(request_body, body))
        if topics and (held_partition_ends := partition_ends(message).held):
            connection.run.state(StableOffsets).observe(held_partition_ends, event.at, connection)
            if not is_read_committed(request_body) or not all(partition.brought for partition in held_partition_ends):
                connection.flags |= _HELD
        if self.is_empty:
            starved = bool(self.behind(event.request, body))
            if self._count_early_response(event, request_body, body) or self._count_busy_poll(
                event, request_body, body, connection
            ):
                connection.flags |= _IRREGULAR
        else:
            self.early = 0
            starved = len(message.frame) <= _MAX_CONTROL_SIZE and _has_only_control(message)
            self.polls = 0
            if request_body.get("min_bytes", 1) > 1:
                self._count_full_wait(event, request_body, connection)
            self._responses_with_records = count = self._responses_with_records + 1
            if self._client_count is None:
                self._client_count = connection.run.state(FetchesWithRecords).of(client_key(connection))
            self._client_count.count += 1
            if count <= _FIRST_COMPARED or count & _COMPARED_MASK <= 1 or self._repeats:
                self._compare_batches(message, request_body, connection)
        if starved:
            connection.flags |= _STARVED

    def _count_full_wait(
        self, event: ResponseReceived, request_body: Mapping[str, Any], connection: ConnectionState
    ) -> None:
        """Count a response with records that the broker held back as long as allowed; flag it after enough in a row."""
        assert event.request is not None
        max_wait_ms = request_body.get("max_wait_ms", 0)
        size = event.size if event.message is None else len(event.message.frame)
        if (
            max_wait_ms < _MIN_WAIT_MS
            or event.at - event.request.at < max_wait_ms * _FULL_WAIT_NS_PER_MS
            or size >= request_body["min_bytes"]
        ):
            self.full_waits = 0
            return
        self.full_waits += 1
        if self.full_waits >= connection.run.limit(FULL_WAITS):
            connection.flags |= _IRREGULAR

    def _count_early_response(
        self, event: ResponseReceived, request_body: Mapping[str, Any], body: Mapping[str, Any]
    ) -> bool:
        """Count an empty response if the broker did not wait; return whether enough came in a row."""
        assert event.request is not None
        max_wait_ms = request_body.get("max_wait_ms", 0)
        if (
            event.at - event.request.at >= max_wait_ms * _EARLY_NS_PER_MS
            or max_wait_ms < _MIN_WAIT_MS
            or request_body.get("min_bytes", 0) <= 0
            or body.get("throttle_time_ms")
            or self.refused
            or not self.offsets(event.request)
        ):
            self.early = 0
            return False
        if self.early == 0:
            self.early_since = event.request.at
        self.early += 1
        if self.early % EARLY_RESPONSES:
            return False
        if self._fetches_past_end(event.request, request_body, body):
            self.early = 0
        return self.early > 0

    def _fetches_past_end(
        self, request: RequestReceived, request_body: Mapping[str, Any], body: Mapping[str, Any]
    ) -> bool:
        """Whether a partition ends before its fetch offset, so that the broker does not wait (DelayedFetch, case F).

        A new leader responds in this way until it knows the high watermark, which followers learn late (KIP-207).
        """
        session = (
            self._sessions.get(request_body.get("session_id", 0)) if request_body.get("session_epoch", -1) > 0 else None
        )
        offsets, ends = self.offsets(request), session.ends if session else _partition_ends(request_body, body)
        return any(0 <= ends.get(topic_partition, -1) < offset for topic_partition, offset in offsets.items())

    def _count_busy_poll(
        self,
        event: ResponseReceived,
        request_body: Mapping[str, Any],
        body: Mapping[str, Any],
        connection: ConnectionState,
    ) -> bool:
        """Count an empty response if its request did not let the broker wait; return whether enough came in a row."""
        assert event.request is not None
        lets_broker_wait = request_body.get("max_wait_ms", 0) >= _MIN_WAIT_MS and request_body.get("min_bytes", 0) > 0
        if lets_broker_wait or self.refused or body.get("throttle_time_ms") or is_follower(request_body):
            self.polls = 0
            return False
        limit = int(connection.run.limit(BUSY_POLLS))
        if self.polls % limit == 0:
            self.polls_since = event.request.at
        self.polls += 1
        return self.polls % limit == 0

    def _compare_batches(self, message: Message, request_body: Mapping[str, Any], connection: ConnectionState) -> None:
        """Flag a response that repeats a batch of the previous one, or whose fields contradict its records."""
        previous_batches, batches = self._batches, []
        end_name, is_consumer, filters_aborted = (
            end_field(request_body),
            not is_follower(request_body),
            is_read_committed(request_body),
        )
        for topic in topic_records(message):
            for records in topic.partitions:
                if (batch := records.batch) is not None:
                    batches.append((batch.base_offset, batch.crc))
                    row = records.row
                    if is_consumer and (
                        batch.base_offset > row.get(end_name, _NO_LIMIT)
                        or batch.base_offset < row.get("log_start_offset", -1)
                        or (row.get("aborted_transactions") and not filters_aborted)
                        or (filters_aborted and _has_unstable_batch(records))
                    ):
                        connection.flags |= _IRREGULAR
        self._batches = frozenset(batches)
        self._repeats = not previous_batches.isdisjoint(batches)
        if self._repeats:
            connection.flags |= _REPEATED

    def _open_session(self, session_id: int, request: Message, body: Mapping[str, Any]) -> None:
        offsets = fetch_offsets(request)
        if len(offsets) <= _MAX_PARTITIONS:
            self._sessions[session_id] = session = _Session()
            session.set_offsets(offsets)
            session.set_ends(_partition_ends(request.body, body))


def _partition_ends(request_body: Mapping[str, Any], body: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition in a response; -1 if it cannot be read from this broker."""
    end_name = end_field(request_body)
    return {
        (name, partition.get("partition_index", 0)): -1
        if partition.get("error_code") or partition.get("preferred_read_replica", -1) >= 0
        else partition.get(end_name, -1)
        for topic in body.get("responses") or ()
        for name in (topic_name_or_id(topic),)
        for partition in topic.get("partitions") or ()
    }


def _has_records(message: Message) -> bool:
    for _, _, partitions in topic_records(message):
        for records in partitions:
            if records.data:
                return True
    return False


def _has_unstable_batch(records: PartitionRecords) -> bool:
    """Whether a partition has a batch at or above its last stable offset."""
    last_stable_offset = records.row.get("last_stable_offset", _NO_LIMIT)
    return (
        last_stable_offset < records.row.get("high_watermark", 0)
        and first_batch_from(records.data, last_stable_offset) is not None
    )


def _has_only_control(message: Message) -> bool:
    """Whether any partition has only control batches."""
    return any(
        are_all_control_batches(records.data)
        for topic in topic_records(message)
        for records in topic.partitions
        if records.data and records.batch is not None and records.batch.attributes & CONTROL
    )


def _is_at_end(request_body: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether no partition has more records. A cheap check, which only recognises responses in the request's order."""
    requested, returned, end = request_body.get("topics") or (), body.get("responses") or (), end_field(request_body)
    try:
        for topic, returned_topic in zip(requested, returned, strict=True):
            if topic_name_or_id(topic) != topic_name_or_id(returned_topic):
                return False
            for partition, returned_partition in zip(topic["partitions"], returned_topic["partitions"], strict=True):
                if (
                    returned_partition[end] > partition["fetch_offset"]
                    or partition["partition"] != returned_partition["partition_index"]
                ):
                    return False
    except (KeyError, TypeError, ValueError):  # missing fields, null, different lengths
        return False
    return True
