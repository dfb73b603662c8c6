"""Fetches: how the fetches of a connection go: empty, early, held back, repeated, refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import BytesSkipped, RequestReceived, ResponseReceived
from dissectors.limits import Limit
from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.messages.transaction_facts import partition_ends
from dissectors.trackers import tracker
from dissectors.trackers.fetch_facts import (
    continues_session,
    end_field,
    has_only_control,
    has_records,
    has_unstable_batch,
    is_follower,
    is_read_committed,
    opens_session,
)
from dissectors.trackers.fetch_sessions import ClientFetchSessions
from dissectors.trackers.partitions import RefusedPartition, refusals
from dissectors.trackers.stable_offsets import StableOffsets
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key

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

_IRREGULAR, _REFUSED = FrameFlags.IRREGULAR.value, FrameFlags.REFUSED.value
_STARVED, _REPEATED, _EMPTY = FrameFlags.STARVED.value, FrameFlags.REPEATED.value, FrameFlags.EMPTY.value
_HELD = FrameFlags.HELD.value


class ClientFetches:
    """The number of Fetch responses with records that a client got, and the time (ns) of its latest response."""

    __slots__ = ("answered_at", "with_records")

    def __init__(self) -> None:
        self.with_records = 0
        self.answered_at = 0


class FetchesByClient:
    """The Fetch responses that each client (host, client id) got, over all of its connections."""

    def __init__(self) -> None:
        self._clients: BoundedDict[tuple[str, str | None], ClientFetches] = BoundedDict(_MAX_CLIENTS)

    def for_client(self, client: tuple[str, str | None]) -> ClientFetches:
        """Return the fetches of a client; later responses update them."""
        return self._clients.touch(client, ClientFetches)


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped),
    apis=("Fetch",),
    broken=True,
    per="connection",
    flags=FrameFlags.STARVED | FrameFlags.REPEATED | FrameFlags.EMPTY | FrameFlags.HELD,
    keeps=(FetchesByClient, StableOffsets),
)
class Fetches:
    """The fetches of one connection.

    A request long after `answered_at` is flagged as irregular.

    Attributes:
        sessions: The offsets of every partition that a request fetches.
        is_response_empty: The latest response has no records.
        refused: The partitions with an error in the latest response.
        is_session_dropped: The latest response has no error and another session than its request.
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
        self.is_response_empty = self.is_session_dropped = False
        self.refused: list[RefusedPartition] = []
        self.unused_sessions = 0
        self.early = self.early_since = self.answered_at = 0
        self.polls = self.polls_since = self.full_waits = 0
        self.sessions = ClientFetchSessions()
        self._responses_with_records = 0
        self._client: ClientFetches | None = None
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
            self.sessions.clear()
        elif continues_session(event.message.body):
            self.sessions.update(event.message)
        elif self.unused_sessions and opens_session(event.message.body):
            connection.flags |= _IRREGULAR

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        self.is_response_empty, self.is_session_dropped, self.refused, self.answered_at = False, False, [], event.at
        if (client := self._client) is None:
            self._client = client = connection.run.state(FetchesByClient).for_client(client_key(connection))
        client.answered_at = event.at
        message, request_body = event.message, event.request_body
        if message is None or event.damaged or not message.well_formed:
            return
        body = message.body
        topics = body.get("responses")
        self.is_response_empty = not topics or not has_records(message)
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
                self.sessions.open(session_id, event.request.message, body)
            elif topics:
                self.sessions.update_ends(request_body, body)
            if epoch > 0 and session_id != request_body.get("session_id") and not body.get("error_code"):
                self.is_session_dropped = True
                connection.flags |= _IRREGULAR
        if topics and (held_partition_ends := partition_ends(message).held):
            connection.run.state(StableOffsets).observe(held_partition_ends, event.at, connection)
            if not is_read_committed(request_body) or not all(partition.brought for partition in held_partition_ends):
                connection.flags |= _HELD
        if self.is_response_empty:
            starved = bool(self.sessions.lagging_partitions(event.request, body))
            if self._count_early_response(event, request_body, body) or self._count_busy_poll(
                event, request_body, body, connection
            ):
                connection.flags |= _IRREGULAR
        else:
            self.early = 0
            starved = len(message.frame) <= _MAX_CONTROL_SIZE and has_only_control(message)
            self.polls = 0
            if request_body.get("min_bytes", 1) > 1:
                self._count_full_wait(event, request_body, connection)
            self._responses_with_records = count = self._responses_with_records + 1
            client.with_records += 1
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
            or not self.sessions.offsets(event.request)
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
        offsets, ends = self.sessions.offsets(request), self.sessions.ends(request_body, body)
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
                        or (filters_aborted and has_unstable_batch(records))
                    ):
                        connection.flags |= _IRREGULAR
        self._batches = frozenset(batches)
        self._repeats = not previous_batches.isdisjoint(batches)
        if self._repeats:
            connection.flags |= _REPEATED
